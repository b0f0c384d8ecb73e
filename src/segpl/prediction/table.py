"""`cases.csv`: a row per case and region. It grows as scans are predicted."""

import csv
import math
from pathlib import Path

from segpl.foundation.errors import UserError
from segpl.foundation.tables import unescaped, write_rows
from segpl.inference.numbers import RegionNumbers

CaseAndRegion = tuple[str, str]

COLUMNS = ("case", "region", *RegionNumbers._fields)


class CaseTable:
    """The rows of the file; those that it already holds are kept."""

    def __init__(self, file: Path):
        self.file = file
        self.rows: dict[CaseAndRegion, dict[str, str]] = {}
        if file.is_file():
            self._read()

    def _read(self) -> None:
        with self.file.open(encoding="utf-8", errors="surrogateescape", newline="") as lines:
            for row in csv.DictReader(lines):
                if set(row) != set(COLUMNS):
                    raise UserError(f"{self.file} has other columns: choose another --out.")
                row["case"] = unescaped(row["case"])
                row["region"] = unescaped(row["region"])
                self.rows[row["case"], row["region"]] = row

    def add(self, case: str, numbers_by_region: dict[str, RegionNumbers]) -> None:
        """Add the numbers of a case, and write the file."""
        for region, numbers in numbers_by_region.items():
            row = {"case": case, "region": region}
            for name, value in numbers._asdict().items():
                row[name] = _cell(value)
            self.rows[case, region] = row
        self._write()

    def _write(self) -> None:
        write_rows(self.file, COLUMNS, self.rows.values())


def _cell(value: float) -> str:
    """A number with six digits; an undefined one is empty."""
    return "" if math.isnan(value) else f"{value:.6g}"
