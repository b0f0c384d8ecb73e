"""`cases.csv`: a row per case and region, which grows as scans are predicted and keeps what was there before."""

import csv
from dataclasses import dataclass, field
from pathlib import Path

from segpl.foundation.files import draft
from segpl.inference.numbers import Numbers

COLUMNS = "case", "region", *Numbers._fields


@dataclass
class Table:
    """The rows by case and region."""

    file: Path
    rows: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file.is_file():
            with self.file.open(encoding="utf-8", newline="") as lines:
                self.rows |= {(row["case"], row["region"]): row for row in csv.DictReader(lines)}

    def add(self, case: str, found: dict[str, Numbers]) -> None:
        """The numbers of a case, in the file at once; undefined ones stay empty."""
        for region, numbers in found.items():
            values = {
                name: "" if value != value else f"{value:.6g}"
                for name, value in numbers._asdict().items()
            }
            self.rows[case, region] = {"case": case, "region": region, **values}
        with draft(self.file) as place, place.open("w", encoding="utf-8", newline="") as lines:
            table = csv.DictWriter(lines, COLUMNS, lineterminator="\n")
            table.writeheader()
            table.writerows(self.rows.values())
