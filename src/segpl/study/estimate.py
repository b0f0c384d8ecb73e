"""What a study will cost here: as much as runs that are done, or as a short probe of each method suggests.

This is not the time of training that `training.pace` estimates from a few steps on noise. A run of a
study also starts a process, reads its data, validates and is scored under every shift, with its
share of the cores; on small data these take longer than the steps. Hence two short runs are timed.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import NamedTuple

from segpl.data.layouts import read_dataset
from segpl.data.splits import cases_for_test
from segpl.evaluation.shifts import Shift, parse_shifts
from segpl.foundation.errors import UserError
from segpl.foundation.files import write_text
from segpl.rundir import COST_FILE
from segpl.settings.run import Run
from segpl.study.jobs import Job
from segpl.study.pool import local
from segpl.study.work import DONE, Evaluation, failure, prepare, result

RULE = (
    "Seeds are left out first, the last listed first, until two are left; then budgets, the last listed first, until "
    "one is left; then the second seed. The methods stay together: a comparison is whole or not there."
)


class Probe(NamedTuple):
    """A short run."""

    steps: int
    validate_every: int


SHORT, LONG = Probe(2, 2), Probe(6, 3)
"""Two that differ in their steps and by one validation; the second is also scored at one level of each shift."""


def measure(
    jobs: Sequence[Job], evaluation: Evaluation, out: Path, workers: int
) -> dict[str, float]:
    """Seconds that a run of each method takes: as its longest run so far, or else as two short ones suggest."""
    seconds: dict[str, float] = {}
    for job in jobs:
        if done := result(out / "runs" / job.name, evaluation):
            seconds[job.method] = max(seconds.get(job.method, 0.0), sum(done["seconds"].values()))
    file = out / "estimates.json"
    noted = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    for job in {job.method: job for job in reversed(jobs) if job.method not in seconds}.values():
        key = f"{job.name} {evaluation} {workers}"
        noted[key] = noted.get(key) or probe(job.run, evaluation, out / "probes", workers)
        write_text(file, json.dumps(noted, indent=2) + "\n")
        seconds[job.method] = noted[key]
    return seconds


def probe(run: Run, evaluation: Evaluation, folder: Path, workers: int) -> float:
    """The seconds that a run will take, from two short ones with the share of the cores that it will have."""
    shutil.rmtree(folder, ignore_errors=True)
    shifts = [shift for shift in parse_shifts(evaluation.shifts) if shift.level]
    for steps, validate_every in (SHORT, LONG):
        scored = _one_of_each(shifts) if steps == LONG.steps else []
        short = replace(run, steps=steps, validate_every=validate_every)
        prepare(folder / str(steps), short, Evaluation(scored, evaluation.samples, cases=1))
    for event in local([folder / str(each.steps) for each in (SHORT, LONG)], workers):
        reason = failure(event.directory)
        if reason and not event.running:
            raise UserError(f"The cost cannot be estimated, because a short probe failed: {reason}")
    first, second = (
        _contents(folder / str(each.steps) / DONE)["seconds"] for each in (SHORT, LONG)
    )
    step = _contents(folder / str(LONG.steps) / COST_FILE)["seconds_per_step"]
    shutil.rmtree(folder)
    cases = len(cases_for_test(read_dataset(run.data), run.seed, run.test))
    return extrapolate(
        first, second, step, run, cases, len(shifts) / max(1, len(_one_of_each(shifts)))
    )


def _one_of_each(shifts: Sequence[Shift]) -> list[str]:
    """The strongest level of each shift."""
    strongest = {shift.name: shift.level for shift in sorted(shifts, key=lambda shift: shift.level)}
    return [f"{name}={level:g}" for name, level in strongest.items()]


def _contents(file: Path) -> dict:
    return json.loads(file.read_text(encoding="utf-8"))


def extrapolate(
    short: Mapping[str, float],
    long: Mapping[str, float],
    step: float,
    run: Run,
    cases: int,
    levels: float,
) -> float:
    """The seconds of a run from those of the two probes and of a step: a start, the steps, validations, the scoring.

    The probes score one of the `cases`; `levels` is the number of levels of each shift.
    """
    validation = max(0.0, long["training"] - short["training"] - (LONG.steps - SHORT.steps) * step)
    start = max(0.0, short["training"] - SHORT.steps * step - validation)
    training = start + run.steps * step + ceil(run.steps / run.validate_every) * validation
    shifted = max(0.0, long["evaluation"] - short["evaluation"])
    return training + cases * (short["evaluation"] + levels * shifted)


def parts(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Ever smaller parts of a study, by the rule."""
    seeds, budgets = (
        list(dict.fromkeys(job.seed for job in jobs)),
        list(dict.fromkeys(job.budget for job in jobs)),
    )
    sizes = [(len(budgets), count) for count in range(len(seeds), 2, -1)]
    sizes += [(count, min(2, len(seeds))) for count in range(len(budgets), 0, -1)]
    sizes += [(1, 1)] if len(seeds) > 1 else []
    for some, few in sizes:
        yield [job for job in jobs if job.budget in budgets[:some] and job.seed in seeds[:few]]


def fitting(jobs: Sequence[Job], left: Mapping[str, float], seconds: float) -> list[Job]:
    """The largest part of a study that fits, where each run has the seconds `left` to it, by name."""
    total = 0.0
    for part in parts(jobs):
        total = sum(left[job.name] for job in part)
        if total <= seconds:
            return part
    raise UserError(
        f"--budget: even one seed of one budget takes {ceil(total / 60)} minutes: give as many, or ask for fewer steps."
    )
