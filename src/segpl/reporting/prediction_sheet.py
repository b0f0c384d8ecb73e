"""One HTML sheet of a folder of predictions: a picture and the numbers of each scan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import jinja2
import pandas as pd

from segpl.foundation.colours import region_colour
from segpl.foundation.files import file_name, write_text
from segpl.rundir import read_text_table

SHEET_FILE = "overview.html"
TABLE_FILE = "cases.csv"
PICTURES = "pictures"
TEMPLATE = Path(__file__).parent / "prediction_sheet.html"


@dataclass(frozen=True)
class PredictedScan:
    """A scan on the sheet."""

    name: str
    picture: str | None
    """The address of the picture, relative to the sheet; None if there is no picture."""
    regions: Sequence[Mapping[str, str]]
    """The rows of `cases.csv`, one per region."""

    @property
    def file_name(self) -> str:
        """The name of its files, without ending."""
        return file_name(self.name)

    @property
    def reasons(self) -> list[str]:
        """Why somebody should look at the scan, each reason once; empty if there is none."""
        reasons: list[str] = []
        for region in self.regions:
            for reason in region["check"].split("; "):
                if reason and reason not in reasons:
                    reasons.append(reason)
        return reasons


def read_predictions(folder: Path) -> list[PredictedScan]:
    """The scans of a folder of predictions: those to check first, then the others."""
    table = read_text_table(folder / TABLE_FILE)
    scans = []
    for name, rows in table.groupby("case", sort=False):
        scans.append(_scan(folder, str(name), rows))
    return sorted(scans, key=lambda scan: not scan.reasons)


def _scan(folder: Path, name: str, rows: pd.DataFrame) -> PredictedScan:
    picture = folder / PICTURES / f"{file_name(name)}.png"
    address = f"{PICTURES}/{quote(picture.name)}" if picture.is_file() else None
    regions = rows.to_dict("records")
    return PredictedScan(name, address, regions)  # type: ignore[arg-type]


def write_prediction_sheet(folder: Path) -> Path:
    """Write the sheet of a folder of predictions, and return its file."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["number"] = _number
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    scans = read_predictions(folder)
    flagged = sum(bool(scan.reasons) for scan in scans)
    file = folder / SHEET_FILE
    page = template.render(
        title=folder.resolve().name, scans=scans, flagged=flagged, colour=region_colour
    )
    write_text(file, page)
    return file


def _number(text: str, digits: int = 3) -> str:
    """A number of the table with some digits, whole from 100 on; a dash where there is none."""
    if not text:
        return "–"
    value = float(text)
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.{digits}g}"
