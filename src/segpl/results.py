"""What the public functions return: files and folders that show themselves in a notebook.

Each is a path, so it can be given to every function that takes one.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from segpl.foundation.html import html_link, html_paragraphs, html_picture, html_table
from segpl.reporting.comparison import comparison_record, comparison_tables
from segpl.reporting.prediction_sheet import SHEET_FILE, PredictedScan, read_predictions
from segpl.reporting.render import html
from segpl.reporting.score_summary import read_scores, summary, summary_tables
from segpl.rundir import (
    RUN_FILE,
    read_mapping,
    read_split,
    read_text_table,
)

MOST_PICTURES = 12
"""Pictures in the notebook; the sheet on disk has all."""
MOST_ROWS = 20


@dataclass(frozen=True, repr=False)
class Result:
    """A file or folder that a function made."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"


@dataclass(frozen=True, repr=False)
class TrainedRun(Result):
    """A run directory."""

    def __repr__(self) -> str:
        facts = self._facts()
        return f"<TrainedRun {self.path}: {facts['method']}, {facts['steps']} steps>"

    def _facts(self) -> dict[str, Any]:
        settings = read_mapping(self.path / RUN_FILE)
        split = read_split(self.path) or {}
        facts = {"method": settings["method"]["name"]}
        for name in ("steps", "seed", "patch", "spacing", "data"):
            facts[name] = settings[name]
        for use in ("labelled", "unlabelled", "validation"):
            facts[f"{use} cases"] = len(split.get(use, ()))
        return facts

    def _repr_html_(self) -> str:
        return html_table(["setting", "value"], self._facts().items(), f"Trained run {self.path}")


@dataclass(frozen=True, repr=False)
class Scores(Result):
    """A table of scores, long and tidy."""

    @property
    def table(self) -> pd.DataFrame:
        """A row per case, region, shift and metric."""
        return read_scores([self.path])

    def summary(self) -> pd.DataFrame:
        """Mean and standard deviation over subjects of each metric, region and shift."""
        return summary(self.table)

    def __repr__(self) -> str:
        rows = self.summary()
        is_main = (rows["shift"] == "clean") & (rows["region"] == "mean")
        parts = []
        for metric in ("dice", "iou"):
            values = rows[is_main & (rows["metric"] == metric)]["mean"]
            if len(values):
                parts.append(f"{metric.replace('iou', 'IoU')} {100 * values.iloc[0]:.1f} %")
        return f"<Scores {self.path}: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        return "".join(str(html(table)) for table in summary_tables(self.table))

    def record(self) -> list[dict[str, Any]]:
        """The summary as plain data for JSON."""
        return _plain_rows(self.summary())


@dataclass(frozen=True, repr=False)
class Predictions(Result):
    """A folder of masks, with their pictures and numbers."""

    @property
    def table(self) -> pd.DataFrame:
        """The rows of `cases.csv`: one per scan and region."""
        table = read_text_table(self.path / "cases.csv")
        for name in table.columns:
            if name not in ("case", "region", "check"):
                table[name] = pd.to_numeric(table[name])
        return table

    @property
    def scans(self) -> list[PredictedScan]:
        """The scans, those to check first."""
        return read_predictions(self.path)

    @property
    def flagged(self) -> dict[str, str]:
        """Why somebody should look at a scan, by its name; scans without a reason are left out."""
        return {scan.name: "; ".join(scan.reasons) for scan in self.scans if scan.reasons}

    def __repr__(self) -> str:
        return f"<Predictions {self.path}: {len(self.scans)} scans, {len(self.flagged)} to check>"

    def _repr_html_(self) -> str:
        parts = []
        for scan in self.scans[:MOST_PICTURES]:
            picture = self.path / "pictures" / f"{scan.file_name}.png"
            title = ": check, ".join([scan.name, *["; ".join(scan.reasons)] * bool(scan.reasons)])
            if picture.is_file():
                parts.append(html_picture(picture.read_bytes(), title))
        table = self.table.round(3).fillna("–")
        parts.append(html_table(list(table.columns), table.head(MOST_ROWS).to_numpy().tolist()))
        parts.append(html_link(self.path / SHEET_FILE, "all scans"))
        return "".join(parts)

    def record(self) -> list[dict[str, Any]]:
        """The table as plain data for JSON."""
        return _plain_rows(self.table)


@dataclass(frozen=True, repr=False)
class Ranking(Result):
    """The scans to label next, the most useful first."""

    @property
    def table(self) -> pd.DataFrame:
        """The rows of the file, as text."""
        return read_text_table(self.path)

    @property
    def cases(self) -> list[str]:
        """The names of the ranked scans."""
        table = self.table
        return list(table["case"][table["rank"] != ""])

    def __repr__(self) -> str:
        first = ", ".join(self.cases[:3])
        return f"<Ranking {self.path}: {len(self.cases)} scans, first {first}>"

    def _repr_html_(self) -> str:
        columns = ["rank", "case", "score", "reason"]
        rows = self.table[columns].head(MOST_ROWS).to_numpy().tolist()
        picture = self.path.with_suffix(".png")
        shown = html_picture(picture.read_bytes()) if picture.is_file() else ""
        return html_table(columns, rows) + shown

    def record(self) -> list[dict[str, Any]]:
        """The rows as plain data for JSON."""
        return _plain_rows(self.table)


@dataclass(frozen=True, repr=False)
class Report(Result):
    """A report on runs: one HTML page."""

    def _repr_html_(self) -> str:
        return html_link(self.path, f"report: {self.path}")


@dataclass(frozen=True, repr=False)
class Export(Result):
    """An exported model or data set."""


@dataclass(frozen=True)
class Comparison:
    """Whether unlabelled scans helped, for each method that was compared with a baseline."""

    folders: tuple[Path, ...]
    baseline: str

    def record(self) -> dict[str, Any]:
        """The verdicts with their numbers as plain data."""
        return comparison_record(self.folders, self.baseline)

    @property
    def verdicts(self) -> list[str]:
        """One sentence for each method."""
        return [verdict["sentence"] for verdict in self.record()["verdicts"]]

    def __repr__(self) -> str:
        return f"<Comparison with {self.baseline}: {' '.join(self.verdicts)}>"

    def _repr_html_(self) -> str:
        sentences = [*self.verdicts, *self.record()["notes"]]
        tables = comparison_tables(self.folders, self.baseline)
        return html_paragraphs(sentences) + "".join(str(html(table)) for table in tables)


def _plain_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table; an undefined number is None, which JSON has."""
    rows: list[dict[str, Any]] = []
    for row in table.to_dict("records"):
        rows.append({str(name): _defined(value) for name, value in row.items()})
    return rows


def _defined(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
