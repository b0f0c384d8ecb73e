"""What `segpl run` trains, and on whom each run is tested."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from segpl.data.cases import Case, Cases, Dataset
from segpl.data.digests import image_files, short_hash
from segpl.data.splits import cases_for_test
from segpl.foundation.errors import UserError
from segpl.foundation.named import Settings, merged
from segpl.methods import BASELINE, DEFAULT, METHODS
from segpl.reporting.grammar import plural
from segpl.rundir import read_plain, write_json
from segpl.settings.planning import finish_run, plan_settings
from segpl.settings.run import Run, run_from
from segpl.settings.sources import settings_for_method
from segpl.settings.subjects import held_out_cases_of, training_cases_of

PLAN_FILE = "plan.json"
"""What was asked for and planned: the same command continues from it."""
ENOUGH_SUBJECTS = 6
"""Labelled subjects of which a quarter can be held out for testing."""


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    data: Path
    method: str = DEFAULT
    seeds: int = 3
    labelled: int | None = None
    minutes: float | None = None
    settings: Settings = field(default_factory=dict)
    """In the form of `segpl train --set`."""

    def record(self) -> dict[str, Any]:
        """The options as JSON holds them."""
        values = {**vars(self), "data": self.data.resolve()}
        return json.loads(json.dumps(values, default=str))


class Testing(StrEnum):
    """Whom the runs are tested on."""

    HELD_OUT = "held out"
    """The test folder or, without one, a quarter of the labelled subjects of each seed."""
    LEAVE_ONE_OUT = "leave one out"
    """Each labelled subject in turn, with a seed of its own."""
    NONE = "none"
    """Nobody: there are too few labelled subjects."""


@dataclass(frozen=True)
class Plan:
    """The runs to train, which differ in method and seed only, and how they are tested."""

    testing: Testing
    runs: tuple[Run, ...]

    @property
    def steps(self) -> int:
        """Steps of each training: the same, so that only the method differs."""
        return self.runs[0].steps

    @property
    def methods(self) -> list[str]:
        """The names of the methods, the baseline first."""
        return list(dict.fromkeys(run.method.name() for run in self.runs))

    @property
    def seeds(self) -> list[int]:
        """The seeds of each method."""
        return list(dict.fromkeys(run.seed for run in self.runs))

    def with_steps(self, steps: int, why: str) -> "Plan":
        """The same plan with another number of steps, and the reason for it."""
        runs = [replace(run, steps=steps, why={**run.why, "steps": why}) for run in self.runs]
        return replace(self, runs=tuple(runs))

    def runs_of(self, seed: int) -> list[Run]:
        """The run of each method with this seed."""
        return [run for run in self.runs if run.seed == seed]

    def before(self, seed: int) -> "Plan":
        """The same plan without this seed and those after it."""
        kept = self.seeds[: self.seeds.index(seed)]
        runs = [run for run in self.runs if run.seed in kept]
        return replace(self, runs=tuple(runs))

    def test_scans(self, dataset: Dataset) -> int:
        """How many scans are scored in all."""
        if self.testing is Testing.NONE:
            return 0
        return sum(len(held_out_cases_of(run, dataset)) for run in self.runs)


def directory_of(run: Run, out: Path) -> Path:
    """The run directory; the runs of a method share a folder, so that they can predict together."""
    method = run.method.name()
    return out / method / f"{method}-seed{run.seed}"


def make_plan(options: Options, dataset: Dataset, testing: Testing) -> Plan:
    """The runs of all seeds, of the baseline and the method; without a test of the method only."""
    _check_options(options)
    settings = merged({"method": options.method}, options.settings)
    if options.labelled is not None:
        settings["labelled"] = options.labelled
    seeds = list(range(options.seeds))
    methods = [BASELINE, options.method]
    if testing is Testing.LEAVE_ONE_OUT:
        seeds = leave_one_out_seeds(dataset)
        settings["test"] = 1
    elif testing is Testing.NONE:
        methods = [options.method]
        settings["test"] = 0
    # One plan for all: runs of different spacing or patch could not predict together. As in
    # nnU-Net's cross-validation, it may see the size of an object that another seed is tested on.
    first = {**settings, "seed": seeds[0]}
    planned = plan_settings(options.data, first, dataset=dataset)
    runs = []
    for seed in seeds:
        for method in methods:
            own = {"seed": seed, "method": settings_for_method(settings["method"], method)}
            runs.append(finish_run(options.data, {**settings, **own}, planned))
    _check_unlabelled(runs, dataset)
    return Plan(testing, tuple(runs))


def _check_options(options: Options) -> None:
    for key, option in (("seed", "--seeds"), ("method", "--method"), ("labelled", "--labelled")):
        if key in options.settings:
            raise UserError(f"{key} is not a setting of segpl run: use {option}.")
    if "steps" in options.settings and options.minutes is not None:
        raise UserError("steps and --minutes both determine the length: give one of them.")
    method = METHODS.get(options.method)
    if method is not None and not method().uses_unlabelled():
        raise UserError(
            f"--method {options.method} learns from labels only, which segpl run compares with: "
            f"choose another, such as {DEFAULT}, or use segpl train."
        )


def _check_unlabelled(runs: Sequence[Run], dataset: Dataset) -> None:
    for run in runs:
        if not training_cases_of(run, dataset).unlabelled:
            raise UserError(
                f"{dataset.folder} leaves no unlabelled scan to learn from: add scans without a "
                "label, or ask for fewer labelled subjects with --labelled."
            )


def choose_testing(options: Options, dataset: Dataset) -> Testing:
    """How to test, as far as the data decide it."""
    has_test_folder = any(case.label for case in dataset.test)
    subjects = len(labelled_subjects(dataset))
    user_decides = "test" in options.settings or "split" in options.settings
    if has_test_folder or subjects >= ENOUGH_SUBJECTS or user_decides:
        return Testing.HELD_OUT
    return Testing.LEAVE_ONE_OUT if subjects > 1 else Testing.NONE


def labelled_subjects(dataset: Dataset) -> set[str]:
    """The subjects of the training folder that have a label."""
    return {case.subject for case in dataset.training if case.label}


def leave_one_out_seeds(dataset: Dataset) -> list[int]:
    """For each labelled subject the first seed that holds out this subject alone."""
    waiting = labelled_subjects(dataset)
    seeds = []
    seed = 0
    while waiting:
        held_out = {case.subject for case in cases_for_test(dataset, seed, test=1)}
        if held_out <= waiting:
            waiting -= held_out
            seeds.append(seed)
        seed += 1
    return seeds


def scans_without_label(dataset: Dataset, runs: Sequence[Run]) -> tuple[Cases, Cases]:
    """The training scans whose label no run has seen, and the test scans without a label."""
    seen_by_all = [set(_names(training_cases_of(run, dataset).unlabelled)) for run in runs]
    names = set.intersection(*seen_by_all)
    training = [case.unlabelled() for case in dataset.training if case.name in names]
    test = [case for case in dataset.test if not case.label]
    return tuple(training), tuple(test)


def _names(cases: Sequence[Case]) -> list[str]:
    return [case.name for case in cases]


def fingerprint(dataset: Dataset) -> str:
    """A hash of each case's part, name, subject, and the names and sizes of its files."""
    rows = []
    for part, cases in (("training", dataset.training), ("test", dataset.test)):
        for case in cases:
            rows.append([part, case.name, case.subject, _file_sizes(case)])
    return short_hash(json.dumps(rows))


def _file_sizes(case: Case) -> list[list[Any]]:
    """The names and sizes of the images, then of the label if there is one."""
    sizes: list[list[Any]] = []
    for image in (*case.images, case.label):
        if image is not None:
            files, _ = image_files(image)
            sizes.append([[file.name, file.stat().st_size] for file in files])
    return sizes


def write_plan(plan: Plan, options: Options, dataset: Dataset, out: Path) -> None:
    """Write the plan, from which the same command continues."""
    contents = {
        "options": options.record(),
        "fingerprint": fingerprint(dataset),
        "testing": plan.testing.value,
        "runs": [run.mapping() for run in plan.runs],
    }
    write_json(out / PLAN_FILE, contents)


def read_plan(options: Options, dataset: Dataset, out: Path) -> Plan | None:
    """The plan of an earlier call; None if there was none, an error if it was another one."""
    file = out / PLAN_FILE
    if not file.is_file():
        return None
    contents = read_plain(file)
    before = contents["options"]
    changed = [key for key, value in options.record().items() if before.get(key) != value]
    if changed:
        raise UserError(
            f"{out} was begun with other options ({', '.join(changed)}): "
            "repeat the command as it was, or choose another --out."
        )
    if contents["fingerprint"] != fingerprint(dataset):
        raise UserError(f"{options.data} has changed since {out} was begun: choose another --out.")
    runs = [run_from(values, source=str(file)) for values in contents["runs"]]
    return Plan(Testing(contents["testing"]), tuple(runs))


def describe(plan: Plan, dataset: Dataset) -> list[str]:
    """The plan in a few lines."""
    training, test = scans_without_label(dataset, plan.runs)
    labelled = plural(len(labelled_subjects(dataset)), "labelled subject")
    unlabelled = plural(len(training) + len(test), "unlabelled scan")
    seeds = ", ".join(str(seed) for seed in plan.seeds)
    methods = " and ".join(plan.methods)
    return [
        f"Data: {labelled} to train and {unlabelled} in {dataset.folder}",
        _describe_testing(plan, dataset),
        f"Training: {methods}, seeds {seeds}: {len(plan.runs)} runs of {plan.steps} steps",
    ]


def _describe_testing(plan: Plan, dataset: Dataset) -> str:
    few = f"too few labelled subjects for a test set ({len(labelled_subjects(dataset))})"
    if plan.testing is Testing.NONE:
        return (
            f"Test: none, because there are {few}; the runs learn from all labels, "
            "and no verdict is possible"
        )
    if plan.testing is Testing.LEAVE_ONE_OUT:
        return f"Test: each labelled subject in turn, because there are {few}"
    run = plan.runs[0]
    if any(case.label for case in dataset.test) and not run.split:
        subjects = {case.subject for case in dataset.test if case.label}
        return f"Test: {plural(len(subjects), 'subject')} of the test folder"
    subjects = {case.subject for case in held_out_cases_of(run, dataset)}
    if run.split:
        return f"Test: {plural(len(subjects), 'labelled subject')} of {run.split}"
    return f"Test: {plural(len(subjects), 'labelled subject')}, which each seed draws by itself"
