"""The runs of a study: all are planned and checked before the first is trained."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from segpl.data import splits
from segpl.data.cases import Dataset
from segpl.data.layouts import read_dataset
from segpl.foundation.errors import KeyPath, UserError
from segpl.foundation.named import Settings
from segpl.methods import METHODS
from segpl.settings.planned import Planned
from segpl.settings.planning import finish_run, plan_settings
from segpl.settings.run import Run, read_yaml
from segpl.settings.sources import preset_file, settings_for_method
from segpl.settings.subjects import check_unlabelled, held_out_cases_of, training_cases_of
from segpl.study.fitting import fitted_settings
from segpl.study.schema import Budget, Entry, Phantoms, Study
from segpl.study.yaml_source import Origins, YamlSource

BATCH = 2
"""Default batch size of a study. One planned from the free memory would differ between calls."""


@dataclass(frozen=True)
class Job:
    """One run of a study, and the row (method) and column (budget) of the tables it counts for."""

    method: str
    budget: str
    seed: int
    run: Run
    identity: str
    """A hash of everything that determines the run: another setting is another run."""

    @property
    def name(self) -> str:
        """The name of its directory."""
        parts = (self.method, self.budget, f"seed{self.seed}", self.identity)
        return "_".join(_safe_name(part) for part in parts)

    def directory(self, out: Path) -> Path:
        """Its run directory in the output folder of the study."""
        return out / "runs" / self.name


def seeds_of(jobs: Iterable[Job]) -> list[int]:
    """The seeds of the runs, each once, in their order."""
    return list(dict.fromkeys(job.seed for job in jobs))


def budgets_of(jobs: Iterable[Job]) -> list[str]:
    """The labels of the budgets of the runs, each once, in their order."""
    return list(dict.fromkeys(job.budget for job in jobs))


def _safe_name(text: str) -> str:
    """The text with one hyphen in place of characters that file names may not have."""
    safe = re.sub(r"[^\w.=]+", "-", text)
    return safe.strip("-.")


def expand(study: Study, source: YamlSource, out: Path) -> list[Job]:
    """All runs of a study, ordered by seed, then budget, then method."""
    with source.locate_errors(("data",)):
        data = _data_folder(study, out)
        dataset = read_dataset(data)
    common = common_settings(study, source)
    if study.fit_to_data:
        common = fitted_settings(common, study.budgets, dataset)
    planner = _Planner(data, dataset, common)
    jobs = []
    for seed in study.seeds:
        for budget_index, budget in enumerate(study.budgets):
            for method_index, entry in enumerate(study.methods):
                origins = _origins(budget_index, method_index)
                with source.locate_errors(("budgets", budget_index), origins):
                    run = planner.run(entry, budget, seed)
                    _check(run, dataset)
                identity = _identity(run, study, dataset)
                jobs.append(Job(entry.label, budget.label, seed, run, identity))
    return jobs


@dataclass(frozen=True)
class _Planner:
    """Plans the runs of a study; all methods of a budget and seed share one plan."""

    data: Path
    dataset: Dataset
    common: Settings
    plans: dict[str, dict[str, Planned]] = field(default_factory=dict)
    """By the settings that they were made for, without the method."""

    def run(self, entry: Entry, budget: Budget, seed: int) -> Run:
        """A run, planned from the labels that its budget and seed allow."""
        settings = {"batch": BATCH, **self.common, **entry.settings}
        method = settings_for_method(settings["method"], entry.method["name"])
        settings |= budget.settings
        settings |= {"seed": seed, "method": method | entry.method}
        key = json.dumps({**settings, "method": None}, sort_keys=True, default=str)
        if key not in self.plans:
            self.plans[key] = plan_settings(self.data, settings, "the run", self.dataset)
        return finish_run(self.data, settings, self.plans[key], "the run")


def _origins(budget: int, method: int) -> Origins:
    """Where a study file gives the settings of the runs of a budget and a method, by index."""

    def origins(where: KeyPath) -> list[KeyPath]:
        if where[0] == "method":
            return [("methods", method, *where[1:]), ("settings", *where)]
        return [
            ("budgets", budget, *where),
            ("methods", method, "settings", *where),
            ("settings", *where),
        ]

    return origins


def _data_folder(study: Study, out: Path) -> Path:
    if isinstance(study.data, Phantoms):
        return study.data.write(out / "data")
    if not study.data.is_dir():
        raise UserError(
            f"{study.data} is not a folder: put the data there, or name their folder with --data."
        )
    return study.data.resolve()


def preset_notes(study: Study, source: YamlSource) -> list[str]:
    """How the settings of a study differ from those of its preset, such as fewer steps."""
    preset_settings = _preset_settings(study, source)
    differences = []
    for key, value in study.settings.items():
        if key in preset_settings and key != "method" and value != preset_settings[key]:
            differences.append(f"{key} is {value} instead of {preset_settings[key]}")
    if not differences:
        return []
    return [f"Unlike the preset {study.preset}: {', '.join(differences)}."]


def _preset_settings(study: Study, source: YamlSource) -> Settings:
    """The settings of the study's preset; none if it has no preset."""
    if not study.preset:
        return {}
    with source.locate_errors(("preset",)):
        return read_yaml(preset_file(Path(study.preset)))


def common_settings(study: Study, source: YamlSource) -> Settings:
    """The settings of all runs: those of the preset, updated with those of the study."""
    preset_settings = _preset_settings(study, source)
    with source.locate_errors(("settings", "method")):
        hyper_parameters = study.settings.get("method", {})
        _check_hyper_parameters(hyper_parameters, study)
    method = {**preset_settings.get("method", {}), **hyper_parameters}
    return {**preset_settings, **study.settings, "method": method}


def _check_hyper_parameters(hyper_parameters: Any, study: Study) -> None:
    """Check that each hyper-parameter belongs to at least one method of the study."""
    if not isinstance(hyper_parameters, dict):
        raise UserError(
            "method takes hyper-parameters such as {alpha: 0.1}: list names under methods."
        )
    known = set()
    for entry in study.methods:
        method = METHODS[entry.method["name"]]
        known |= {parameter.name for parameter in fields(method)}
    for key in hyper_parameters:
        if key not in known:
            names = ", ".join(sorted(known))
            message = f"{key} is a setting of none of the methods: they take {names}."
            raise UserError(message, where=(key,))


def _check(run: Run, dataset: Dataset) -> None:
    """Refuse what training or scoring would refuse later."""
    check_unlabelled(run, training_cases_of(run, dataset))
    if not held_out_cases_of(run, dataset):
        raise UserError(f"{run.data} has no labelled test case: add some to its test part.")


def _identity(run: Run, study: Study, dataset: Dataset) -> str:
    """A hash of the run's settings (without their reasons), its data and the way of splitting.

    Data folders count with their path and their subjects. Phantoms count with their parameters
    only, so that a study on phantoms has the same runs in every output folder.
    """
    left_out = ["why"]
    data: Any = _subjects(dataset)
    if isinstance(study.data, Phantoms):
        left_out = ["why", "data"]
        data = str(study.data)
    settings = {}
    for key, value in run.mapping().items():
        if key not in left_out and value is not None:
            settings[key] = value
    contents = {"run": settings, "data": data, "split": splits.VERSION}
    text = json.dumps(contents, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _subjects(dataset: Dataset) -> list[list[str]]:
    """Name and subject of each case, and whether it is labelled."""
    rows = []
    for case in [*dataset.training, *dataset.test]:
        use = "labelled" if case.label else "unlabelled"
        rows.append([case.name, case.subject, use])
    return rows
