"""How long the parts of `segpl run` take on this machine, and how many steps fit into a time."""

import time
from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from segpl.data.cases import Case, Dataset
from segpl.data.scans import read_scan
from segpl.foundation.device import choose_device
from segpl.foundation.errors import UserError
from segpl.foundation.progress import format_duration
from segpl.inference.predictor import MapOptions, Predictor
from segpl.settings.run import Run
from segpl.training.timing import SHARE_OF_STEPS, seconds_per_step
from segpl.workflow.plan import Plan, Testing, scans_without_label

FEWEST_STEPS = 300
"""Steps of a training that is worth a comparison: as many as the shorter one of `segpl demo`."""
STEPS_TO_START = 10
"""What it takes to start a training, in steps: a few of them are timed again, for example."""
SCORING = 3.0
"""How many times as long as its prediction the scoring of a scan takes; 2.7 on tumour phantoms."""
RANKING = 6.0
"""Time to rank a scan relative to the time to predict it: ranking needs three views too."""
LATE = 1.2
"""How many times the minutes may have passed before seeds are left out."""
REPORT_SECONDS = 20.0
"""The report with its figures, and the start of the stages before it."""


class Costs(NamedTuple):
    """Seconds on this machine."""

    step: dict[str, float]
    """A training step, by method."""
    scan: float
    """To read and predict a scan with one run."""


def measure_costs(plan: Plan, dataset: Dataset) -> Costs:
    """Time a few steps of each method on noise, and the prediction of a scan without training."""
    step = {}
    for run in plan.runs:
        method = run.method.name()
        if method not in step:
            step[method] = seconds_per_step(run, dataset.task)
    case = dataset.training[len(dataset.training) // 2]
    return Costs(step, _seconds_of_scan(plan.runs[0], dataset, case))


def _seconds_of_scan(run: Run, dataset: Dataset, case: Case) -> float:
    device = choose_device()
    model = run.build(dataset.task).to(device).eval()
    predictor = Predictor(run, dataset.task, model, device)
    started = time.perf_counter()
    prepared = predictor.prepare(read_scan(case.unlabelled()))
    predictor.maps(prepared.x, MapOptions())
    return time.perf_counter() - started


class Seconds(NamedTuple):
    """The estimated duration of each part."""

    training: float
    scoring: float
    prediction: float
    ranking: float
    report: float

    @property
    def after_training(self) -> float:
        """All but the training."""
        return sum(self) - self.training


def estimate(plan: Plan, costs: Costs, dataset: Dataset) -> Seconds:
    """How long the plan takes."""
    to_rank, only_to_predict = scans_without_label(dataset, plan.runs)
    members = len(plan.seeds)
    labelled = sum(case.label is not None for case in dataset.training)
    scans = len(to_rank) + len(only_to_predict)
    return Seconds(
        training=sum(seconds_of_training(run, costs) for run in plan.runs),
        scoring=plan.test_scans(dataset) * SCORING * costs.scan,
        prediction=scans * members * costs.scan,
        ranking=(RANKING * len(to_rank) + labelled) * costs.scan,
        report=REPORT_SECONDS,
    )


def seconds_of_training(run: Run, costs: Costs) -> float:
    """The estimated duration of one training."""
    steps = run.steps / SHARE_OF_STEPS + STEPS_TO_START
    return steps * costs.step[run.method.name()]


def steps_within(
    seconds: float,
    runs: Sequence[Run],
    costs: Costs,
) -> int:
    """How many steps each run can have if all trainings together take so many seconds."""
    seconds_of_one_step_each = sum(costs.step[run.method.name()] for run in runs)
    steps = seconds / seconds_of_one_step_each - STEPS_TO_START
    return max(1, int(SHARE_OF_STEPS * steps))


def fit_into(plan: Plan, costs: Costs, dataset: Dataset, minutes: float, left: float) -> Plan:
    """The plan with as many steps as fit; `left` are the seconds of the minutes that are left.

    At least a third of them is for training. If scoring and prediction leave less, it is an error.
    """
    after_training = estimate(plan, costs, dataset).after_training
    for_training = left - after_training
    if for_training < left / 3:
        spent = 60 * minutes - left
        needed = ceil((spent + 1.5 * after_training) / 60)
        raise UserError(
            f"--minutes {minutes:g} is too short: scoring, prediction and the report take "
            f"about {format_duration(after_training)} on this machine: give at least {needed}."
        )
    steps = steps_within(for_training, plan.runs, costs)
    why = f"as many as fit into {minutes:g} minutes, with {len(plan.runs)} runs and their use"
    return plan.with_steps(steps, why)


def is_too_short(plan: Plan) -> bool:
    """Whether leave-one-out divides the time into trainings that are too short to compare."""
    return plan.testing is Testing.LEAVE_ONE_OUT and plan.steps < FEWEST_STEPS
