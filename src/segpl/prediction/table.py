"""`cases.csv`: a row per case and region. It grows as scans are predicted."""

import csv
import math
from pathlib import Path

from segpl.data.likeness import Likeness
from segpl.foundation.errors import UserError
from segpl.foundation.tables import unescaped, write_rows
from segpl.inference.numbers import RegionNumbers
from segpl.prediction.flags import reason_to_check

CaseAndRegion = tuple[str, str]

COLUMNS = ("case", "region", *RegionNumbers._fields, "unlike_training", "check")
"""`unlike_training` is the distance from the training scans in standard deviations, and `check`
says why somebody should look at the prediction."""


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

    def add(
        self,
        case: str,
        numbers_by_region: dict[str, RegionNumbers],
        likeness: Likeness | None,
    ) -> None:
        """Add the numbers of a case, and write the file."""
        for region, numbers in numbers_by_region.items():
            row = {"case": case, "region": region}
            for name, value in numbers._asdict().items():
                row[name] = _cell(value)
            row["unlike_training"] = "" if likeness is None else _cell(likeness.distance)
            row["check"] = reason_to_check(numbers, likeness)
            self.rows[case, region] = row
        self._write()

    def _write(self) -> None:
        write_rows(self.file, COLUMNS, self.rows.values())


def _cell(value: float) -> str:
    """A number with six digits; an undefined one is empty."""
    return "" if math.isnan(value) else f"{value:.6g}"
