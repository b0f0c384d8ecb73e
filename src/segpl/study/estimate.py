"""Estimates what a study will cost here, from finished runs or from short probes of each method.

This is not the training time that `training.timing` estimates from a few steps on noise. A run of a
study also starts a process, reads its data, validates and is scored under every shift, with its
share of the cores; on small data these take longer than the steps. So two short runs are timed.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from segpl.data.layouts import read_dataset
from segpl.evaluation.shifts import Shift, parse_shifts
from segpl.foundation.errors import UserError
from segpl.foundation.progress import console
from segpl.rundir import COST_FILE, read_plain, write_json
from segpl.settings.run import Run
from segpl.settings.subjects import held_out_cases_of
from segpl.study.jobs import Job, budgets_of, seeds_of
from segpl.study.local import run_locally
from segpl.study.single_run import (
    DONE_FILE,
    Evaluation,
    failure_reason,
    finished_result,
    prepare,
)

RULE = (
    "Seeds are left out first, the last listed first, until two are left; then budgets, the last "
    "listed first, until one is left; then the second seed. All methods of a seed and budget are "
    "kept or left out together."
)


class Probe(NamedTuple):
    """A short run."""

    steps: int
    validate_every: int


SHORT = Probe(steps=2, validate_every=2)
LONG = Probe(steps=6, validate_every=3)
"""It has more steps and one more validation, and is also scored at one level of each shift."""


def seconds_per_run(
    jobs: Sequence[Job],
    evaluation: Evaluation,
    out: Path,
    workers: int,
) -> dict[str, float]:
    """Seconds of a run by method: its longest finished run or, if there is none, an estimate."""
    seconds = _seconds_of_finished_runs(jobs, evaluation, out)
    first_jobs = _first_job_of_each_method(jobs)
    for number, job in enumerate(first_jobs, start=1):
        if job.method not in seconds:
            console.print(f"Timing {job.method} by two short runs ({number} of {len(first_jobs)})")
            seconds[job.method] = _estimated_seconds(job, evaluation, out, workers)
    return seconds


def _seconds_of_finished_runs(
    jobs: Sequence[Job], evaluation: Evaluation, out: Path
) -> dict[str, float]:
    longest: dict[str, float] = {}
    for job in jobs:
        result = finished_result(job.directory(out), evaluation)
        if result:
            seconds = sum(result["seconds"].values())
            previous = longest.get(job.method, 0.0)
            longest[job.method] = max(previous, seconds)
    return longest


def _first_job_of_each_method(jobs: Sequence[Job]) -> list[Job]:
    first: dict[str, Job] = {}
    for job in jobs:
        first.setdefault(job.method, job)
    return list(first.values())


def _estimated_seconds(
    job: Job,
    evaluation: Evaluation,
    out: Path,
    workers: int,
) -> float:
    """An estimate by probes, which `estimates.json` keeps for the next call."""
    file = out / "estimates.json"
    estimates = read_plain(file) if file.is_file() else {}
    key = f"{job.name} {evaluation} {workers}"
    if key not in estimates:
        estimates[key] = probe(job.run, evaluation, out / "probes", workers)
        write_json(file, estimates)
    return estimates[key]


def probe(
    run: Run,
    evaluation: Evaluation,
    folder: Path,
    workers: int,
) -> float:
    """Estimate the seconds of a run from two short ones with the same share of the cores."""
    shutil.rmtree(folder, ignore_errors=True)
    short_directory = folder / "short"
    long_directory = folder / "long"
    shifts = [shift for shift in parse_shifts(evaluation.shifts) if shift.level]
    strongest = _strongest_levels(shifts)
    _prepare_probe(short_directory, run, SHORT, [], evaluation.samples)
    _prepare_probe(long_directory, run, LONG, strongest, evaluation.samples)
    _run_probes([short_directory, long_directory], workers)
    short_seconds = read_plain(short_directory / DONE_FILE)["seconds"]
    long_seconds = read_plain(long_directory / DONE_FILE)["seconds"]
    seconds_per_step = read_plain(long_directory / COST_FILE)["seconds_per_step"]
    shutil.rmtree(folder)
    cases = held_out_cases_of(run, read_dataset(run.data))
    levels = len(shifts) / max(1, len(strongest))
    return extrapolate(short_seconds, long_seconds, seconds_per_step, run, len(cases), levels)


def _prepare_probe(
    directory: Path,
    run: Run,
    length: Probe,
    shifts: list[str],
    samples: int,
) -> None:
    short_run = replace(run, steps=length.steps, validate_every=length.validate_every)
    prepare(directory, short_run, Evaluation(shifts, samples, cases=1))


def _run_probes(directories: Sequence[Path], workers: int) -> None:
    for event in run_locally(directories, workers):
        reason = failure_reason(event.directory)
        if reason and not event.running:
            raise UserError(f"The cost cannot be estimated because a short probe failed: {reason}")


def _strongest_levels(shifts: Sequence[Shift]) -> list[str]:
    """The strongest level of each shift, in the form `name=level`."""
    strongest: dict[str, float] = {}
    for shift in sorted(shifts, key=attrgetter("level")):
        strongest[shift.name] = shift.level
    texts = []
    for name, level in strongest.items():
        texts.append(f"{name}={level:g}")
    return texts


def extrapolate(
    short: Mapping[str, float],
    long: Mapping[str, float],
    step: float,
    run: Run,
    cases: int,
    levels: float,
) -> float:
    """The seconds of a run: its start, steps, validations and scoring.

    `short` and `long` are the seconds of `training` and `evaluation` of the two probes, `step`
    those of a step. The probes score one of the `cases`; `levels` is the number of levels of each
    shift.
    """
    more_steps = LONG.steps - SHORT.steps
    longer = long["training"] - short["training"]
    validation = max(0.0, longer - more_steps * step)
    start = max(0.0, short["training"] - SHORT.steps * step - validation)
    validations = ceil(run.steps / run.validate_every)
    training = start + run.steps * step + validations * validation
    unchanged = short["evaluation"]
    shifted = max(0.0, long["evaluation"] - unchanged)
    return training + cases * (unchanged + levels * shifted)


def reduced_studies(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """The whole study, then ever smaller parts of it, by `RULE`."""
    seeds = seeds_of(jobs)
    budgets = budgets_of(jobs)
    for budget_count, seed_count in _sizes(len(budgets), len(seeds)):
        kept_budgets = budgets[:budget_count]
        kept_seeds = seeds[:seed_count]
        yield [job for job in jobs if job.budget in kept_budgets and job.seed in kept_seeds]


def _sizes(budgets: int, seeds: int) -> list[tuple[int, int]]:
    """Numbers of budgets and seeds to keep, ever smaller, by `RULE`."""
    sizes = []
    for seed_count in range(seeds, 2, -1):
        sizes.append((budgets, seed_count))
    for budget_count in range(budgets, 0, -1):
        sizes.append((budget_count, min(2, seeds)))
    if seeds > 1:
        sizes.append((1, 1))
    return sizes


def largest_that_fits(
    jobs: Sequence[Job],
    left: Mapping[str, float],
    seconds: float,
) -> list[Job]:
    """The largest part of a study that takes at most `seconds`.

    `left` are the seconds that each run still takes, by its name.
    """
    total = 0.0
    for part in reduced_studies(jobs):
        total = sum(left[job.name] for job in part)
        if total <= seconds:
            return part
    raise UserError(
        f"--budget: even one seed of one budget takes {ceil(total / 60)} minutes: "
        "give at least as many, or ask for fewer steps."
    )
