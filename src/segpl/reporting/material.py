"""What a comparison or a report is made from: the files of several runs, read once."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from segpl.foundation.errors import UserError
from segpl.foundation.suggestions import suggest
from segpl.reporting.grammar import listed
from segpl.reporting.run_folder import RunFolder, find_runs
from segpl.reporting.table import TABLE_ENDING
from segpl.reporting.verdict import DEFAULT_BASELINE
from segpl.rundir import TASK_FILE, scoring_suffix

COMPARED_SETTINGS = (
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
"""Settings that must be equal in all runs if a difference is to be due to the method alone."""
RUN_COLUMNS = ["run", "method", "budget", "seed"]
SCORE_COLUMNS = ["metric", "value", "shift", "level", "subject", "case", "region", "labelled"]
IMAGE_COLUMNS = [*SCORE_COLUMNS, "image", "foreground"]
CURVE_COLUMNS = [*SCORE_COLUMNS, "curve", "x", "y", "voxels"]
LOG_COLUMNS = ["step"]


@dataclass(frozen=True)
class Material:
    """Runs and their concatenated tables. A table that no run has keeps its columns only."""

    folders: Sequence[Path]
    runs: Sequence[RunFolder]
    scores: pd.DataFrame
    images: pd.DataFrame
    curves: pd.DataFrame
    log: pd.DataFrame
    study_tables: Sequence[Path] = ()
    """Files of a study's tables as `table.to_json` writes them."""
    tables_not_shown: Sequence[Path] = ()
    """Tables of a study that exist only as Markdown, because an earlier version wrote them."""
    regions: Sequence[Mapping[str, Any]] = field(default_factory=list)
    """The regions of the task, as task.yaml lists them."""
    chosen_baseline: str | None = None
    """The method that the user wants the others to be compared with."""

    @property
    def methods(self) -> list[str]:
        """All methods: first those that learn from labels only, then in the order of the runs.

        A baseline that the user chose comes before all others.
        """
        labels_only = self.labels_only
        chosen = [] if self.chosen_baseline is None else [self.chosen_baseline]
        names = list(dict.fromkeys(run.method for run in self.runs))
        names = [name for name in names if name not in chosen]
        with_labels_only = [name for name in names if name in labels_only]
        others = [name for name in names if name not in labels_only]
        return chosen + with_labels_only + others

    @property
    def labels_only(self) -> set[str]:
        """Methods of which every run is known to have learnt from labels only."""
        names = {run.method for run in self.runs}
        others = {run.method for run in self.runs if run.facts.uses_unlabelled is not False}
        return names - others

    @property
    def unknown_use(self) -> set[str]:
        """Methods with a run that does not say whether it learnt from unlabelled scans."""
        return {run.method for run in self.runs if run.facts.uses_unlabelled is None}

    @property
    def budgets(self) -> list[str]:
        """The label budgets, in the order of the runs."""
        return list(dict.fromkeys(run.budget for run in self.runs))

    @property
    def baseline(self) -> str | None:
        """The method that the others are compared with.

        By default it is one that learns from labels only, and the default baseline is preferred.
        None if no method is known to learn from labels only.
        """
        if self.chosen_baseline is not None:
            return self.chosen_baseline
        candidates = [name for name in self.methods if name in self.labels_only]
        if DEFAULT_BASELINE in candidates or DEFAULT_BASELINE in self.unknown_use:
            return DEFAULT_BASELINE
        return candidates[0] if candidates else None

    def with_baseline(self, baseline: str) -> "Material":
        """The same material with a baseline that the user chose among the methods."""
        if baseline not in self.methods:
            raise UserError(
                f"No run here uses the baseline {baseline}: train one with it, or choose among "
                f"{listed(self.methods)}.{suggest(baseline, self.methods)}"
            )
        return replace(self, chosen_baseline=baseline)

    @property
    def setting_differences(self) -> list[str]:
        """A sentence for each budget at which scored runs differ in more than the method."""
        sentences = []
        for budget in self.budgets:
            differences = _different_settings(self._scored_settings(budget))
            if differences:
                sentences.append(
                    "Not only the method differs between the runs at "
                    f"{budget}: {'; '.join(differences)}."
                )
        return sentences

    def _scored_settings(self, budget: str) -> list[Mapping[str, Any]]:
        runs = [run for run in self.runs if run.budget == budget]
        return [run.settings for run in runs if scoring_suffix(run.folder) is not None]

    @property
    def unknown_use_notes(self) -> list[str]:
        """A sentence on the runs that do not say whether they learnt from unlabelled scans."""
        names = [run.name for run in self.runs if run.facts.uses_unlabelled is None]
        if not names:
            return []
        return [
            f"Unknown whether unlabelled scans were used: {', '.join(names)}. An earlier version "
            "of segpl trained these runs and did not record it, so there is no verdict on whether "
            "unlabelled scans help them."
        ]

    @property
    def unscored(self) -> list[RunFolder]:
        """Runs without a score."""
        scored = set(self.scores["run"])
        return [run for run in self.runs if run.name not in scored]

    @property
    def failed(self) -> list[RunFolder]:
        """Runs that failed in their study."""
        return [run for run in self.runs if run.failure]

    @property
    def clean(self) -> pd.DataFrame:
        """Scores of the unchanged test images."""
        return self.scores[self.scores["shift"] == "clean"]


def gather(folders: Sequence[Path]) -> Material:
    """Read every run in `folders`. Each is a run directory, a folder of runs, or a study."""
    runs = _unique_runs(folders)
    tasks = _tasks(runs)
    if any(task != tasks[0] for task in tasks):
        raise UserError(
            f"{folders[0]} holds runs of different tasks: give the run directories of one task."
        )
    return Material(
        folders=list(folders),
        runs=runs,
        scores=_concatenate([run.scores() for run in runs], SCORE_COLUMNS),
        images=_concatenate([run.images() for run in runs], IMAGE_COLUMNS),
        curves=_concatenate([run.curves() for run in runs], CURVE_COLUMNS),
        log=_concatenate([run.log() for run in runs], LOG_COLUMNS),
        study_tables=_study_tables(folders, TABLE_ENDING),
        tables_not_shown=_tables_not_shown(folders),
        regions=tasks[0]["regions"] if tasks else [],
    )


def _unique_runs(folders: Sequence[Path]) -> list[RunFolder]:
    """Every run once, with a name of its own, in the order of the label budgets."""
    by_folder: dict[Path, RunFolder] = {}
    for folder in folders:
        for run in find_runs(folder):
            by_folder.setdefault(run.folder.resolve(), run)
    counts = Counter(run.name for run in by_folder.values())
    runs = []
    for run in by_folder.values():
        is_ambiguous = counts[run.name] > 1
        runs.append(_with_parent_name(run) if is_ambiguous else run)
    return sorted(runs, key=_budget_order)


def _with_parent_name(run: RunFolder) -> RunFolder:
    parent = run.folder.resolve().parent
    return replace(run, name=f"{parent.name}/{run.name}")


def _budget_order(run: RunFolder) -> list[tuple[bool, int, str]]:
    """A sort key by which budget 2 comes before 10, and text comes after numbers."""
    key = []
    for token in re.split(r"(\d+)", run.budget):
        if token.isdigit():
            key.append((False, int(token), token))
        elif token:
            key.append((True, 0, token))
    return key


def _tasks(runs: Sequence[RunFolder]) -> list[Any]:
    """What the runs that have a record of their task say about it."""
    tasks = [run.read(TASK_FILE) for run in runs]
    return [task for task in tasks if task]


def _different_settings(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The compared settings that have several values among the settings of these runs."""
    differences = []
    for key in COMPARED_SETTINGS:
        values = {json.dumps(settings[key]) for settings in runs if key in settings}
        if len(values) > 1:
            listed_values = ", ".join(sorted(values))
            differences.append(f"{key} ({listed_values})")
    return differences


def _concatenate(tables: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    filled = [table for table in tables if len(table)]
    if not filled:
        return pd.DataFrame(columns=[*RUN_COLUMNS, *columns])
    return pd.concat(filled, ignore_index=True)


def _study_tables(folders: Sequence[Path], ending: str) -> list[Path]:
    """The tables that studies wrote to these folders; the table of cost comes last."""
    files: list[Path] = []
    for folder in folders:
        files += sorted((folder / "tables").glob(f"*{ending}"))
        files += folder.glob(f"cost{ending}")
    return files


def _tables_not_shown(folders: Sequence[Path]) -> list[Path]:
    """Tables of studies that exist only as Markdown, which the report does not read."""
    missing = []
    for file in _study_tables(folders, ".md"):
        if not file.with_suffix(TABLE_ENDING).is_file():
            missing.append(file)
    return missing
