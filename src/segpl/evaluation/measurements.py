"""What has been measured so far, case by case on disk.

A killed evaluation continues from it, and an evaluation with more shifts adds to it.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from segpl.evaluation.shifts import Shift
from segpl.foundation.errors import UserError
from segpl.foundation.files import file_name, write_text
from segpl.foundation.tables import write_frame
from segpl.rundir import read_mapping, read_table

SCORES_SUFFIX = ".scores.csv"
KEY_FILE = "key.json"


class Tables(NamedTuple):
    """What an evaluation measures, long and tidy."""

    scores: pd.DataFrame
    """Per case, region, shift and metric."""
    images: pd.DataFrame
    """Per image as the paper counts them (slices, or crops of the patch's size), unshifted."""
    curves: pd.DataFrame
    """Reliability and risk-coverage of the unshifted cases."""


@dataclass(frozen=True)
class Measurements:
    """A folder with the tables of each case and shift, all measured under the same `key`."""

    folder: Path
    key: dict[str, Any]
    """What determines the numbers: weights, data, samples. Another key invalidates all tables."""

    def stored_key(self) -> dict[str, Any]:
        """The key under which this folder was measured; empty where nothing was, or is known."""
        file = self.folder / KEY_FILE
        if not file.is_file():
            return {}
        try:
            return read_mapping(file)
        except UserError:
            return {}

    def open(self) -> None:
        """Remove what was measured under another key."""
        if self.stored_key() != self.key:
            shutil.rmtree(self.folder, ignore_errors=True)
            text = json.dumps(self.key, indent=2, sort_keys=True)
            write_text(self.folder / KEY_FILE, text + "\n")

    def has(self, case: str, shift: Shift) -> bool:
        """Whether this case was measured under this shift, and no table has lost its end."""
        if not self._file(case, _shift_name(shift), "scores").is_file():
            return False
        files = [self._file(case, _shift_name(shift), kind) for kind in Tables._fields]
        return all(_is_complete(file) for file in files if file.is_file())

    def add(self, case: str, shift: Shift, tables: Tables) -> None:
        """Write the tables of a case under a shift.

        The scores come last, because their file marks the others as complete.
        """
        for kind in ("curves", "images", "scores"):
            table = getattr(tables, kind)
            if kind == "scores" or len(table):
                file = self._file(case, _shift_name(shift), kind)
                write_frame(file, table)

    def tables(self, cases: Sequence[str]) -> Tables:
        """The tables of all shifts that every one of these cases was measured under."""
        shift_names = self._measured(cases[0])
        for case in cases[1:]:
            shift_names &= self._measured(case)
        ordered = sorted(shift_names, key=_name_and_level)
        return Tables(
            scores=self._concatenated(cases, ordered, "scores"),
            images=self._concatenated(cases, ordered, "images"),
            curves=self._concatenated(cases, ordered, "curves"),
        )

    def _concatenated(
        self,
        cases: Sequence[str],
        shift_names: Sequence[str],
        kind: str,
    ) -> pd.DataFrame:
        tables = []
        for case in cases:
            for shift_name in shift_names:
                file = self._file(case, shift_name, kind)
                if file.is_file():
                    tables.append(read_table(file))
        if not tables:
            return pd.DataFrame()
        return pd.concat(tables, ignore_index=True)

    def _measured(self, case: str) -> set[str]:
        """The names of the shifts, such as ood=0.1, that a case was measured under."""
        folder = self.folder / file_name(case)
        files = folder.glob(f"*{SCORES_SUFFIX}")
        return {file.name.removesuffix(SCORES_SUFFIX) for file in files}

    def _file(self, case: str, shift_name: str, kind: str) -> Path:
        return self.folder / file_name(case) / f"{shift_name}.{kind}.csv"


def _is_complete(table: Path) -> bool:
    """Whether a table ends as every table does: with the end of a line."""
    return table.read_bytes().endswith(b"\n")


def _shift_name(shift: Shift) -> str:
    return f"{shift.name}={shift.level:g}"


def _name_and_level(shift_name: str) -> tuple[str, float]:
    """The order of shifts in tables: by name, then by level as a number."""
    name, _, level = shift_name.partition("=")
    return name, float(level)
