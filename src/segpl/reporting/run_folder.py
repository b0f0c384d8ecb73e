"""One run directory as a report reads it, and the search for the run directories in a folder."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from segpl.foundation.errors import UserError
from segpl.foundation.files import file_name
from segpl.reporting.facts import Facts, read_facts, read_log
from segpl.rundir import (
    LOG_FILE,
    RUN_FILE,
    RUNS_FILE,
    ScoringFiles,
    read_mapping,
    read_plain,
    read_table,
    run_directories,
    scoring_files,
    scoring_suffix,
)

FAILED_FILE = "failed.txt"
"""Written by a study into the directory of a run that failed: the reason, in one line."""
OWN_DATA_SUFFIX = re.compile(r"(-\d+-samples)?")
"""Suffixes of evaluations on the run's own test cases. Other data have other suffixes."""

CASE_COLUMNS = ("subject", "case", "region", "shift", "level")
SCORE_COLUMNS = (*CASE_COLUMNS, "metric", "value")
CURVE_COLUMNS = (*CASE_COLUMNS, "curve", "x", "y", "voxels")


@dataclass(frozen=True)
class RunFolder:
    """One run directory. A study may give `method` and `budget` names of its own."""

    folder: Path
    name: str
    method: str
    budget: str
    settings: Mapping[str, Any]
    """The contents of run.yaml."""

    @property
    def seed(self) -> int:
        """The seed of the split, the initial weights and the batches."""
        return int(self.settings.get("seed", 0))

    @cached_property
    def facts(self) -> Facts:
        """What training recorded about the run."""
        return read_facts(self.folder, self.settings.get("steps"))

    @property
    def failure(self) -> str | None:
        """The reason why the run failed in its study; None if it did not fail."""
        file = self.folder / FAILED_FILE
        if not file.is_file():
            return None
        return file.read_text(encoding="utf-8").strip()

    @property
    def scoring_suffix(self) -> str:
        """The suffix of the run's scores, masks and so on; empty if there are no scores."""
        return scoring_suffix(self.folder) or ""

    @property
    def scoring(self) -> ScoringFiles:
        """The files of the evaluation that the report shows."""
        return scoring_files(self.folder, self.scoring_suffix)

    def scorings_on_own_data(self) -> list[ScoringFiles]:
        """The files of every evaluation on the run's own test cases: one per number of samples."""
        plain = scoring_files(self.folder).prediction_cost
        scorings = []
        for file in sorted(self.folder.glob(f"{plain.stem}*{plain.suffix}")):
            suffix = file.stem.removeprefix(plain.stem)
            if OWN_DATA_SUFFIX.fullmatch(suffix):
                scorings.append(scoring_files(self.folder, suffix))
        return scorings

    def mask_file(self, case: str) -> Path:
        """The predicted mask of a test case."""
        return self.scoring.masks / f"{file_name(case)}.nii.gz"

    def probabilities_file(self, case: str) -> Path:
        """The predicted probabilities of a test case."""
        return self.scoring.probabilities / f"{file_name(case)}.nii.gz"

    def read(self, name: str) -> Any:
        """The contents of a YAML or JSON file of the run; an empty dict if there is none."""
        file = self.folder / name
        return read_plain(file) if file.is_file() else {}

    def table(self, name: str) -> pd.DataFrame:
        """A CSV table with the study's names; no rows if the file is missing or empty."""
        file = self.folder / name
        if not file.is_file() or not file.stat().st_size:
            return pd.DataFrame()
        rows = read_log(self.folder) if name == LOG_FILE else read_table(file)
        return rows.assign(run=self.name, method=self.method, budget=self.budget, seed=self.seed)

    def scores(self) -> pd.DataFrame:
        """The scores of the test cases."""
        return self._table_with(SCORE_COLUMNS, self.scoring.scores.name)

    def images(self) -> pd.DataFrame:
        """The scores of single images."""
        return self._table_with(SCORE_COLUMNS, self.scoring.images.name)

    def curves(self) -> pd.DataFrame:
        """The points of reliability and risk-coverage curves."""
        return self._table_with(CURVE_COLUMNS, self.scoring.curves.name)

    def _table_with(self, columns: Sequence[str], name: str) -> pd.DataFrame:
        """A table that must have these columns if it has rows."""
        rows = self.table(name)
        missing = [column for column in columns if column not in rows]
        if len(rows) and missing:
            raise UserError(
                f"{self.folder / name} has no column {missing[0]}: "
                "write it again with segpl evaluate."
            )
        return rows

    def log(self) -> pd.DataFrame:
        """The log of the training, step by step."""
        return self.table(LOG_FILE)


def find_runs(folder: Path) -> list[RunFolder]:
    """The run in `folder` if it is a run directory, otherwise the runs inside it.

    In the folder of a study, only the runs that the study lists count: others are older.
    """
    if not folder.is_dir():
        raise UserError(
            f"{folder} is not a folder: give a run directory, a folder of runs, or a study."
        )
    directories = _run_directories(folder)
    if not directories:
        raise UserError(
            f"{folder} holds no run: train one with segpl train or give another folder."
        )
    study_file = folder / RUNS_FILE
    if not study_file.is_file():
        return [_read_run(directory, {}) for directory in directories]
    names = read_mapping(study_file)
    runs = [_read_run(directory, names) for directory in directories if directory.name in names]
    if not runs:
        raise UserError(
            f"{study_file} names no run that is in {folder}: run the same segpl study again."
        )
    return runs


def _run_directories(folder: Path) -> list[Path]:
    """The runs of a folder; if it has none, those of the folders in it, as `segpl run` makes."""
    directories = run_directories(folder)
    if not directories:
        for group in sorted(path for path in folder.iterdir() if path.is_dir()):
            directories += run_directories(group)
    return directories


def _read_run(directory: Path, names: Mapping[str, Sequence[str]]) -> RunFolder:
    """Read a run. `names` maps directory names to the study's names of method and budget."""
    settings = read_mapping(directory / RUN_FILE)
    if directory.name in names:
        method, budget = names[directory.name]
    else:
        method = _method_name(settings)
        budget = _budget_name(settings)
    return RunFolder(directory, directory.resolve().name, method, budget, settings)


def _method_name(settings: Mapping[str, Any]) -> str:
    method = settings.get("method", {})
    if isinstance(method, dict):
        return str(method.get("name", ""))
    return str(method)


def _budget_name(settings: Mapping[str, Any]) -> str:
    subjects = f"{settings.get('labelled') or 'all'} labelled"
    for part in ("slices", "crops"):
        if settings.get(part):
            return f"{subjects}, {settings[part]} {part}"
    return subjects
