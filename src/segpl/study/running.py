"""A study: many runs from one file, resumable, on this machine or a cluster, with tables at the end."""

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from segpl.foundation.errors import UserError
from segpl.foundation.files import write_text
from segpl.foundation.progress import console, in_words
from segpl.reporting.study_tables import write_study_tables
from segpl.rundir import RUNS_FILE
from segpl.study.board import Board
from segpl.study.cluster import on_cluster, require_ray
from segpl.study.estimate import RULE, fitting, measure
from segpl.study.jobs import Job, expand
from segpl.study.pool import Event, local
from segpl.study.reading import read_study
from segpl.study.results import costs, layout, scores
from segpl.study.work import Evaluation, failure, prepare, result

__all__ = ["run_study"]

Executor = Callable[[Sequence[Path], int | None], Generator[Event, None, None]]
"""Works through run directories, so many at a time, and says when each begins and ends."""


def run_study(
    file: Path,
    out: Path,
    data: Path | None = None,
    on: str = "local",
    workers: int | None = None,
    minutes: float | None = None,
) -> int:
    """Train and score every run of a study file and write the tables to `out`; the number of runs that failed.

    What an earlier call finished is not done again, what it began goes on, and what failed is tried again.
    """
    study, source = read_study(file, data)
    executor = _executor(on)
    with _alone(out):
        jobs = expand(study, source, out)
        evaluation, notes = Evaluation(list(study.shifts), study.samples), list[str]()
        if minutes is not None:
            jobs, notes = _within(minutes, jobs, evaluation, out, workers or 1, on)
        write_text(
            out / RUNS_FILE,
            json.dumps({job.name: (job.method, job.budget) for job in jobs}, indent=2) + "\n",
        )
        _execute(jobs, evaluation, out, executor, workers)
        files = write_study_tables(
            out / "tables",
            scores(jobs, evaluation, out),
            costs(jobs, evaluation, out),
            layout(study, jobs, out, notes),
        )
    for table in files:
        print(f"table: {table}")
    return sum(failure(out / "runs" / job.name) is not None for job in jobs)


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Make the output folder this study's alone; the system lets go of it even when the study is killed."""
    lock = FileLock(out / ".lock", timeout=0)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise UserError(
            f"--out {out}: another study is at work there: wait, or choose another folder."
        ) from None
    except OSError as error:
        raise UserError(
            f"--out {out} cannot be written ({error.strerror}): choose another folder."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _within(
    minutes: float, jobs: list[Job], evaluation: Evaluation, out: Path, workers: int, on: str
) -> tuple[list[Job], list[str]]:
    """The runs that fit into so many minutes, and what is left out, said before anything begins."""
    console.print("Timing each method...")
    seconds = measure(
        jobs, evaluation, out, workers if on == "local" else 1
    )  # elsewhere a run has cores of its own
    left = {
        job.name: 0.0
        if result(out / "runs" / job.name, evaluation)
        else seconds[job.method] / workers
        for job in jobs
    }
    for method, cost in seconds.items():
        console.print(f"{method}: a run takes {in_words(cost)}", markup=False)
    console.print(
        f"all {len(jobs)} runs take {in_words(sum(left.values()))} from here; the budget is {minutes:g} min"
    )
    kept = fitting(jobs, left, 60 * minutes)
    if len(kept) == len(jobs):
        return kept, []
    note = f"{len(jobs) - len(kept)} of {len(jobs)} runs were left out for want of time: {_left_out(jobs, kept)}. {RULE}"
    console.print(note, markup=False)
    return kept, [note]


def _left_out(jobs: Sequence[Job], kept: Sequence[Job]) -> str:
    seeds = [
        str(seed)
        for seed in dict.fromkeys(job.seed for job in jobs)
        if seed not in {job.seed for job in kept}
    ]
    budgets = [
        name
        for name in dict.fromkeys(job.budget for job in jobs)
        if name not in {job.budget for job in kept}
    ]
    parts = {"seeds": seeds, "budgets": budgets}
    return ", ".join(f"{what} {', '.join(names)}" for what, names in parts.items() if names)


def _execute(
    jobs: Sequence[Job], evaluation: Evaluation, out: Path, executor: Executor, workers: int | None
) -> None:
    """Do what is not done yet."""
    directories = {out / "runs" / job.name: job for job in jobs}
    todo = {
        directory: job
        for directory, job in directories.items()
        if not result(directory, evaluation)
    }
    for directory, job in todo.items():
        prepare(directory, job.run, evaluation)
    with (
        Board(todo, len(jobs) - len(todo), workers or 1) as board,
        closing(executor(list(todo), workers)) as events,
    ):
        for event in events:
            (board.begun if event.running else board.ended)(event.directory)
        console.print(board.counts(), markup=False)


def _executor(on: str) -> Executor:
    """Where the runs take place: on this machine, or on a cluster."""
    if on == "local":
        return local
    if on.partition(":")[0] == "ray":
        require_ray()
        return partial(on_cluster, address=on)
    raise UserError(f"--on {on} is no place for runs: choose local, ray or ray://HOST:PORT.")
