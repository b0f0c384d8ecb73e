"""Runs a study: trains and scores every run of a file, and writes the tables."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from segpl.foundation.errors import UserError
from segpl.foundation.progress import console, format_duration
from segpl.reporting.study_tables import write_image_table, write_study_tables
from segpl.rundir import RUNS_FILE, write_json
from segpl.study.cluster import require_ray, run_on_cluster
from segpl.study.estimate import RULE, largest_that_fits, seconds_per_run
from segpl.study.fitting import data_notes
from segpl.study.jobs import Job, budgets_of, common_settings, expand, preset_notes, seeds_of
from segpl.study.local import Event, run_locally
from segpl.study.progress import StudyProgress
from segpl.study.results import costs, images, layout, scores
from segpl.study.single_run import Evaluation, failure_reason, finished_result, prepare
from segpl.study.study_file import read_study

__all__ = ["exclusive_use", "run_study"]

Events = Generator[Event, None, None]
Executor = Callable[[Sequence[Path], int | None], Events]
"""Works on run directories, N at a time, and yields an event when each starts and ends."""


def run_study(
    file: Path,
    out: Path,
    data: Path | None = None,
    on: str = "local",
    workers: int | None = None,
    minutes: float | None = None,
) -> int:
    """Train and score all runs of a study file, write tables to `out`, return how many runs failed.

    Runs that an earlier call finished are not repeated, unfinished ones continue, and failed ones
    are tried again. With `minutes`, only the part of the study that fits is run.
    """
    study, source = read_study(file, data)
    executor = _executor(on)
    with exclusive_use(out):
        jobs = expand(study, source, out)
        evaluation = Evaluation(list(study.shifts), study.samples)
        notes = preset_notes(study, source)
        notes += data_notes(common_settings(study, source), jobs[0].run)
        if minutes is not None:
            jobs, left_out = _within_minutes(minutes, jobs, evaluation, out, workers or 1, on)
            notes += left_out
        cells = {job.name: (job.method, job.budget) for job in jobs}
        write_json(out / RUNS_FILE, cells)
        _execute(jobs, evaluation, out, executor, workers)
        tables = out / "tables"
        all_scores = scores(jobs, evaluation, out)
        table_layout = layout(study, jobs, out, notes)
        files = write_study_tables(tables, all_scores, costs(jobs, evaluation, out), table_layout)
        all_images = images(jobs, evaluation, out)
        files += write_image_table(tables, all_images, all_scores, table_layout)
    for table in files:
        print(f"table: {table}")
    failed = [job for job in jobs if failure_reason(job.directory(out)) is not None]
    return len(failed)


@contextmanager
def exclusive_use(out: Path) -> Iterator[None]:
    """Make and lock the output folder; the system releases the lock if this process is killed."""
    lock = FileLock(out / ".lock", timeout=0)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise UserError(
            f"--out {out}: another command is running there: wait, or choose another folder."
        ) from None
    except OSError as error:
        raise UserError(
            f"--out {out} cannot be written ({error.strerror}): choose another folder."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _within_minutes(
    minutes: float,
    jobs: list[Job],
    evaluation: Evaluation,
    out: Path,
    workers: int,
    on: str,
) -> tuple[list[Job], list[str]]:
    """The runs that fit into `minutes`, and notes about those left out; both are printed first."""
    console.print("Timing each method...")
    sharing_cores = workers if on == "local" else 1  # on a cluster, a run has its own cores
    seconds = seconds_per_run(jobs, evaluation, out, sharing_cores)
    for method, cost in seconds.items():
        console.print(f"{method}: a run takes {format_duration(cost)}", markup=False)
    left = {}
    for job in jobs:
        if finished_result(job.directory(out), evaluation):
            left[job.name] = 0.0
        else:
            left[job.name] = seconds[job.method] / workers
    total = format_duration(sum(left.values()))
    console.print(f"all {len(jobs)} runs take {total} from here; the budget is {minutes:g} min")
    kept = largest_that_fits(jobs, left, 60 * minutes)
    if len(kept) == len(jobs):
        return kept, []
    count = len(jobs) - len(kept)
    note = (
        f"{count} of {len(jobs)} runs were left out for lack of time: "
        f"{_left_out(jobs, kept)}. {RULE}"
    )
    console.print(note, markup=False)
    return kept, [note]


def _left_out(jobs: Sequence[Job], kept: Sequence[Job]) -> str:
    """The seeds and budgets that are not kept: `seeds 2, 3, budgets all`."""
    kept_seeds = seeds_of(kept)
    kept_budgets = budgets_of(kept)
    seeds = [str(seed) for seed in seeds_of(jobs) if seed not in kept_seeds]
    budgets = [budget for budget in budgets_of(jobs) if budget not in kept_budgets]
    parts = []
    if seeds:
        parts.append(f"seeds {', '.join(seeds)}")
    if budgets:
        parts.append(f"budgets {', '.join(budgets)}")
    return ", ".join(parts)


def _execute(
    jobs: Sequence[Job],
    evaluation: Evaluation,
    out: Path,
    executor: Executor,
    workers: int | None,
) -> None:
    """Train and score the runs that are not finished yet."""
    unfinished = {}
    for job in jobs:
        directory = job.directory(out)
        if not finished_result(directory, evaluation):
            unfinished[directory] = job
            prepare(directory, job.run, evaluation)
    done = len(jobs) - len(unfinished)
    with (
        StudyProgress(unfinished, done, workers or 1) as progress,
        closing(executor(list(unfinished), workers)) as events,
    ):
        for event in events:
            if event.running:
                progress.run_started(event.directory)
            else:
                progress.run_ended(event.directory)
        console.print(progress.summary(), markup=False)


def _executor(on: str) -> Executor:
    """Where to run: on this machine or on a cluster."""
    if on == "local":
        return run_locally
    scheme, _, _ = on.partition(":")
    if scheme == "ray":
        require_ray()
        return partial(run_on_cluster, address=on)
    raise UserError(f"--on {on} is not supported: choose local, ray or ray://HOST:PORT.")
