"""Long tables as CSV files: one number a row, with the columns that say of what."""

import re
from pathlib import Path

import pandas as pd

TEXT = ("run", "method", "subject", "case", "region", "shift", "metric", "curve")
"""Columns that stay as they were written: subject 007 is not subject 7, and a case may be called NA."""

RUNS_FILE = "runs.json"
"""What a study's runs are called, and the method and budget that each belongs to: others in its folder are older."""


def read_table(file: Path) -> pd.DataFrame:
    """A table as it was written, number for number."""
    return pd.read_csv(
        file,
        dtype=dict.fromkeys(TEXT, str),
        keep_default_na=False,
        na_values={"value": [""], "labelled": [""]},
        float_precision="round_trip",
    )


def scored_as(run: Path) -> str | None:
    """How the files of a run's scoring end: plainly or, if it was only scored with samples, with the most of them."""
    if (run / "scores.csv").is_file():
        return ""
    found = [re.fullmatch(r"scores(-(\d+)-samples)\.csv", file.name) for file in run.glob("scores-*-samples.csv")]
    known = [match for match in found if match]
    return max(known, key=lambda match: int(match[2]))[1] if known else None
