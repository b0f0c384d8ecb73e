"""What a comparison or a report is made from: the files of runs, read once, under the names that a study gave them."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from segpl.foundation.errors import UserError
from segpl.foundation.files import file_name
from segpl.reporting.facts import Facts, read_facts
from segpl.reporting.table import TABLE_ENDING
from segpl.reporting.verdict import DEFAULT_BASELINE
from segpl.rundir import LOG_FILE, RUN_FILE, RUNS_FILE, TASK_FILE, read_plain, read_table, scored_as

KEYS = ["run", "method", "budget", "seed"]
SAME = (
    "steps",
    "batch",
    "ratio",
    "patch",
    "channels",
    "strides",
    "learning_rate",
    "augment",
    "foreground",
    "spacing",
    "validation",
)
"""Settings that methods must share if the better one is to be better for being the method that it is."""


@dataclass(frozen=True)
class RunFolder:
    """One run directory; `method` and `budget` are what its study calls them."""

    folder: Path
    name: str
    method: str
    budget: str
    settings: Mapping[str, Any]
    """What run.yaml says."""

    @property
    def seed(self) -> int:
        """What drew its split, weights and batches."""
        return int(self.settings.get("seed", 0))

    @cached_property
    def facts(self) -> Facts:
        """What training recorded about it."""
        return read_facts(self.folder, self.settings.get("steps"))

    @property
    def failure(self) -> str | None:
        """Why its study gave it up, if it did."""
        file = self.folder / "failed.txt"
        return file.read_text(encoding="utf-8").strip() if file.is_file() else None

    @property
    def scoring(self) -> str:
        """How the names of its scores, masks and the like end."""
        return scored_as(self.folder) or ""

    def read(self, name: str) -> Any:
        """What a YAML or JSON file of the run holds; nothing where there is none."""
        file = self.folder / name
        return read_plain(file) if file.is_file() else {}

    def volume(self, kind: str, case: str) -> Path:
        """The file of a case's mask or probabilities."""
        return self.folder / f"{kind}{self.scoring}" / f"{file_name(case)}.nii.gz"

    def table(self, name: str) -> pd.DataFrame:
        """A long table of the run under the names of its study; empty where there is none."""
        file = self.folder / name
        if not file.is_file() or not file.stat().st_size:
            return pd.DataFrame()
        rows = read_table(file) if name != LOG_FILE else pd.read_csv(file)
        return rows.assign(run=self.name, method=self.method, budget=self.budget, seed=self.seed)


@dataclass(frozen=True)
class Material:
    """Runs, and their tables one below the other. A table that no run has is empty but has its columns."""

    folders: Sequence[Path]
    runs: Sequence[RunFolder]
    scores: pd.DataFrame
    images: pd.DataFrame
    curves: pd.DataFrame
    log: pd.DataFrame
    study_tables: Sequence[Path] = ()
    """Files of a study's tables as `table.to_json` writes them."""
    tables_not_shown: Sequence[Path] = ()
    """Tables of a study that were written before there was such a file."""
    regions: Sequence[Mapping[str, Any]] = field(default_factory=list)

    @property
    def methods(self) -> list[str]:
        """Those that learn from labels alone first, then in the order of the runs."""
        names = list(dict.fromkeys(run.method for run in self.runs))
        return sorted(names, key=lambda name: name not in self.labels_alone)

    @property
    def labels_alone(self) -> set[str]:
        """Methods of which no run learnt from an unlabelled scan."""
        others = {run.method for run in self.runs if run.facts.uses_unlabelled is not False}
        return {run.method for run in self.runs} - others

    @property
    def of_unknown_use(self) -> set[str]:
        """Methods with a run of which nobody recorded whether it learnt from unlabelled scans."""
        return {run.method for run in self.runs if run.facts.uses_unlabelled is None}

    @property
    def budgets(self) -> list[str]:
        """In the order of the runs."""
        return list(dict.fromkeys(run.budget for run in self.runs))

    @property
    def baseline(self) -> str | None:
        """What the others are compared with: a method that learns from labels alone, the usual one first."""
        found = [name for name in self.methods if name in self.labels_alone]
        if DEFAULT_BASELINE in found or DEFAULT_BASELINE in self.of_unknown_use:
            return DEFAULT_BASELINE
        return found[0] if found else None

    @property
    def unlike(self) -> list[str]:
        """What a fair comparison would have the same and these runs have not, in a sentence for each budget."""
        said = []
        for budget in self.budgets:
            runs = [
                run.settings
                for run in self.runs
                if run.budget == budget and scored_as(run.folder) is not None
            ]
            seen = {key: {json.dumps(run[key]) for run in runs if key in run} for key in SAME}
            found = [
                f"{key} ({', '.join(sorted(values))})"
                for key, values in seen.items()
                if len(values) > 1
            ]
            if found:
                said.append(
                    f"Not only the method differs between the runs at {budget}: {'; '.join(found)}."
                )
        return said

    @property
    def unknown(self) -> list[str]:
        """A sentence on the runs of which it is unknown whether they learnt from unlabelled scans."""
        names = [run.name for run in self.runs if run.facts.uses_unlabelled is None]
        if not names:
            return []
        return [
            f"Unknown whether unlabelled scans were used: {', '.join(names)}. An earlier version of segpl trained "
            "them and did not record it, so nothing is said here about whether the unlabelled scans help them."
        ]

    @property
    def unscored(self) -> list[RunFolder]:
        """Runs without a score."""
        scored = set(self.scores["run"])
        return [run for run in self.runs if run.name not in scored]

    @property
    def failed(self) -> list[RunFolder]:
        """Runs that their study gave up."""
        return [run for run in self.runs if run.failure]

    @property
    def clean(self) -> pd.DataFrame:
        """Scores of the images as they are."""
        return self.scores[self.scores["shift"] == "clean"]


def gather(folders: Sequence[Path]) -> Material:
    """Read every run in `folders`: a run directory, a folder of some, or a study."""
    found: dict[Path, RunFolder] = {}
    for run in chain.from_iterable(map(runs_in, folders)):
        found.setdefault(run.folder.resolve(), run)
    runs = list(found.values())
    doubles = {name for name, count in Counter(run.name for run in runs).items() if count > 1}
    if doubles:
        runs = [_renamed(run) if run.name in doubles else run for run in runs]
    runs = sorted(runs, key=lambda run: _natural(run.budget))
    tasks = [task for run in runs if (task := run.read(TASK_FILE))]
    if any(task != tasks[0] for task in tasks):
        raise UserError(
            f"{folders[0]} holds runs of different tasks: name the run directories of one of them."
        )
    extra = {
        "scores": ["metric", "value", "shift", "level", "subject", "case", "region", "labelled"]
    }
    extra |= {"images": [*extra["scores"], "image", "foreground"], "log": ["step"]}
    extra["curves"] = [*extra["scores"], "curve", "x", "y", "voxels"]
    tables = {kind: _stacked(runs, kind, columns) for kind, columns in extra.items()}
    return Material(
        list(folders),
        runs,
        **tables,
        study_tables=_study_tables(folders, TABLE_ENDING),
        tables_not_shown=_tables_not_shown(folders),
        regions=tasks[0]["regions"] if tasks else [],
    )


def _study_tables(folders: Sequence[Path], ending: str) -> list[Path]:
    """The tables that studies left in these folders, that of cost last."""
    files = []
    for folder in folders:
        files += sorted((folder / "tables").glob(f"*{ending}"))
        files += folder.glob(f"cost{ending}")
    return files


def _tables_not_shown(folders: Sequence[Path]) -> list[Path]:
    """Tables that studies left as Markdown alone: the report does not read Markdown."""
    missing = []
    for file in _study_tables(folders, ".md"):
        if not file.with_suffix(TABLE_ENDING).is_file():
            missing.append(file)
    return missing


def runs_in(folder: Path) -> list[RunFolder]:
    """The folder itself if it is a run, else those in it; of a study, those that it names."""
    if not folder.is_dir():
        raise UserError(
            f"{folder} is not a folder: give a run directory, a folder of them, or a study."
        )
    found = _run_directories(folder)
    if not found:
        raise UserError(
            f"{folder} holds no run: make one with segpl train, or give the folder of another."
        )
    names = folder / RUNS_FILE
    if not names.is_file():
        return [_run(directory, {}) for directory in found]
    named = read_plain(names)
    runs = [_run(directory, named) for directory in found if directory.name in named]
    if not runs:
        raise UserError(
            f"{names} names no run that is in {folder}: call the same segpl study again."
        )
    return runs


def _run_directories(folder: Path) -> list[Path]:
    if (folder / RUN_FILE).is_file():
        return [folder]
    inside = folder / "runs" if (folder / "runs").is_dir() else folder
    return sorted(file.parent for file in inside.glob("*/run.yaml"))


def _run(folder: Path, named: Mapping[str, Sequence[str]]) -> RunFolder:
    settings = read_plain(folder / RUN_FILE)
    method = settings.get("method", {})
    name = str(method.get("name", "") if isinstance(method, dict) else method)
    label, budget = named.get(folder.name, (name, _budget(settings)))
    return RunFolder(folder, folder.resolve().name, label, budget, settings)


def _budget(settings: Mapping[str, Any]) -> str:
    labelled, slices = settings.get("labelled"), settings.get("slices")
    subjects = f"{labelled or 'all'} labelled"
    return f"{subjects}, {slices} slices" if slices else subjects


def _natural(text: str) -> list[tuple[bool, int, str]]:
    """An order in which 2 comes before 10, and words come last."""
    return [
        (not part.isdigit(), int(part) if part.isdigit() else 0, part)
        for part in re.split(r"(\d+)", text)
        if part
    ]


def _renamed(run: RunFolder) -> RunFolder:
    name = f"{run.folder.resolve().parent.name}/{run.name}"
    return RunFolder(run.folder, name, run.method, run.budget, run.settings)


def _stacked(runs: Sequence[RunFolder], kind: str, columns: Sequence[str]) -> pd.DataFrame:
    names = [(run, f"{kind}.csv" if kind == "log" else f"{kind}{run.scoring}.csv") for run in runs]
    tables = [table for run, name in names if len(table := run.table(name))]
    return (
        pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[*KEYS, *columns])
    )
