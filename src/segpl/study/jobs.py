"""From a study to its runs: every one planned and checked before the first is trained."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from segpl.data import splits
from segpl.data.cases import Dataset
from segpl.data.layouts import read_dataset
from segpl.data.splits import cases_for_test, training_cases
from segpl.foundation.errors import Place, UserError
from segpl.methods import METHODS
from segpl.settings.choices import for_method, preset
from segpl.settings.planned import Planned
from segpl.settings.planning import finish_run, plan_settings
from segpl.settings.run import Run, read_yaml
from segpl.study.schema import Budget, Entry, Phantoms, Study
from segpl.study.source import Origins, Source

BATCH = 2
"""Of every run, unless the file says otherwise: what the free memory suggests may differ from call to call."""


@dataclass(frozen=True)
class Job:
    """One run of a study, and the cell of the tables that it belongs to."""

    method: str
    budget: str
    seed: int
    run: Run
    identity: str
    """A hash of all that determines the run: another setting is another run."""

    @property
    def name(self) -> str:
        """What its directory is called."""
        words = (self.method, self.budget, f"seed{self.seed}", self.identity)
        return "_".join(re.sub(r"[^\w.=]+", "-", word).strip("-.") for word in words)


def expand(study: Study, source: Source, out: Path) -> list[Job]:
    """All runs of a study: all methods of a seed and budget, then the next budget, then the next seed."""
    with source.blame(("data",)):
        data = (
            study.data.write(out / "data")
            if isinstance(study.data, Phantoms)
            else _folder(study.data)
        )
        dataset = read_dataset(data)
    common = _common(study, source)
    plans: dict[str, dict[str, Planned]] = {}
    jobs = []
    for seed in study.seeds:
        for place, budget in enumerate(study.budgets):
            for number, entry in enumerate(study.methods):
                with source.blame(("budgets", place), _origins(place, number)):
                    settings = {"batch": BATCH, **common, **entry.settings}
                    run = _run(data, dataset, settings, entry, budget, seed, plans)
                    _check(run, dataset)
                    jobs.append(
                        Job(entry.label, budget.label, seed, run, _identity(run, study, dataset))
                    )
    return jobs


def _origins(budget: int, method: int) -> Origins:
    """Where a study gives the settings of the runs of a budget and a method, by their numbers."""

    def origins(where: Place) -> list[Place]:
        if where[0] == "method":
            return [("methods", method, *where[1:]), ("settings", *where)]
        return [
            ("budgets", budget, *where),
            ("methods", method, "settings", *where),
            ("settings", *where),
        ]

    return origins


def _folder(data: Path) -> Path:
    if not data.is_dir():
        raise UserError(
            f"{data} is not a folder: put the data there, or name their folder with --data."
        )
    return data.resolve()


def _common(study: Study, source: Source) -> dict[str, Any]:
    """The settings of all runs; under `method`, those that some method of the study knows."""
    file = preset(Path(study.preset)) if study.preset else None
    with source.blame(("preset",)):
        start = read_yaml(file) if file else {}
    with source.blame(("settings", "method")):
        hyper = study.settings.get("method", {})
        known = {
            each.name for entry in study.methods for each in fields(METHODS[entry.method["name"]])
        }
        if not isinstance(hyper, dict):
            raise UserError(
                "method takes hyper-parameters such as {alpha: 0.1}: list names under methods."
            )
        for key in hyper:
            if key not in known:
                raise UserError(
                    f"{key} is a setting of none of the methods: they take {', '.join(sorted(known))}.",
                    where=(key,),
                )
    return {**start, **study.settings, "method": {**start.get("method", {}), **hyper}}


def _run(
    data: Path,
    dataset: Dataset,
    settings: dict[str, Any],
    entry: Entry,
    budget: Budget,
    seed: int,
    plans: dict[str, dict[str, Planned]],
) -> Run:
    """A run, planned from the labels that its budget and seed allow; once for all methods."""
    shared = settings | budget.settings | {"seed": seed}
    method = for_method(settings["method"], entry.method["name"]) | entry.method
    key = json.dumps({**shared, "method": None}, sort_keys=True, default=str)
    if key not in plans:
        plans[key] = plan_settings(data, shared | {"method": method}, "the run", dataset)
    return finish_run(data, shared | {"method": method}, plans[key], "the run")


def _check(run: Run, dataset: Dataset) -> None:
    """Refuse what training or scoring would refuse later."""
    cases = training_cases(dataset, run.labelled, run.seed, run.validation, run.test)
    if run.method.uses_unlabelled() and not cases.unlabelled:
        raise UserError(
            f"{run.data} leaves no unlabelled scan for {run.method.name()}: ask for fewer labelled ones."
        )
    if not cases_for_test(dataset, run.seed, run.test):
        raise UserError(f"{run.data} has no labelled test case: add some to its test part.")


def _identity(run: Run, study: Study, dataset: Dataset) -> str:
    """The settings that the run has, without their reasons; of the data, where they are and who is in them."""
    phantoms = isinstance(study.data, Phantoms)
    left_out = {"why", "data"} if phantoms else {"why"}
    settings = {
        key: value
        for key, value in run.mapping().items()
        if key not in left_out and value is not None
    }
    data = str(study.data) if phantoms else list(_who(dataset))
    parts = {"run": settings, "data": data, "split": splits.VERSION}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]


def _who(dataset: Dataset) -> Iterator[list[str]]:
    for part in (dataset.training, dataset.test):
        for case in part:
            yield [case.name, case.subject, "labelled" if case.label else "unlabelled"]
