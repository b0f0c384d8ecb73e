"""What has been measured so far, case by case on disk: a killed evaluation goes on, a wider one adds to it."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from segpl.evaluation.shifts import Shift
from segpl.foundation.files import file_name, write_text
from segpl.rundir import read_table

DONE, KEY = ".scores.csv", "key.json"


class Tables(NamedTuple):
    """What an evaluation measures, long and tidy."""

    scores: pd.DataFrame
    """Per case, region, shift and metric."""
    images: pd.DataFrame
    """Per image as the paper counts them (slices, or crops of the patch's size), unshifted."""
    curves: pd.DataFrame
    """Reliability and risk-coverage of the unshifted cases."""


@dataclass(frozen=True)
class Ledger:
    """A folder of tables per case, all measured under the same `key`."""

    folder: Path
    key: dict[str, Any]
    """What determines the numbers: weights, data, samples. Under another key nothing is taken over."""

    def before(self) -> dict[str, Any]:
        """The key under which this folder was measured; empty where nothing was."""
        file = self.folder / KEY
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    def open(self) -> None:
        """Forget what was measured under another key."""
        if self.before() != self.key:
            shutil.rmtree(self.folder, ignore_errors=True)
            write_text(self.folder / KEY, json.dumps(self.key, indent=2, sort_keys=True) + "\n")

    def has(self, case: str, shift: Shift) -> bool:
        """Whether this was measured."""
        return self._file(case, shift, "scores").is_file()

    def add(self, case: str, shift: Shift, tables: Tables) -> None:
        """Keep what was measured; the scores last, because they say that all is there."""
        for kind, table in reversed(tables._asdict().items()):
            if kind == "scores" or len(table):
                write_text(self._file(case, shift, kind), table.to_csv(index=False))

    def tables(self, cases: Sequence[str]) -> Tables:
        """All shifts that were measured of every one of these cases, now or before, one below the other."""
        names = sorted(set.intersection(*map(self._measured, cases)), key=_kind_and_level)
        return Tables(*(self._table(cases, names, kind) for kind in Tables._fields))

    def _table(self, cases: Sequence[str], names: Sequence[str], kind: str) -> pd.DataFrame:
        files = [
            self.folder / file_name(case) / f"{name}.{kind}.csv" for case in cases for name in names
        ]
        tables = [read_table(file) for file in files if file.is_file()]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def _measured(self, case: str) -> set[str]:
        """Shifts and their levels."""
        return {
            file.name.removesuffix(DONE)
            for file in (self.folder / file_name(case)).glob(f"*{DONE}")
        }

    def _file(self, case: str, shift: Shift, kind: str) -> Path:
        return self.folder / file_name(case) / f"{shift.name}={shift.level:g}.{kind}.csv"


def _kind_and_level(name: str) -> tuple[str, float]:
    kind, _, level = name.partition("=")
    return kind, float(level)
