"""Long tables as CSV files: one number a row, with the columns that say of what."""

from pathlib import Path

import pandas as pd

TEXT = ("run", "method", "subject", "case", "region", "shift", "metric", "curve")
"""Columns that stay as they were written: subject 007 is not subject 7, and a case may be called NA."""


def read_table(file: Path) -> pd.DataFrame:
    """A table as it was written, number for number."""
    return pd.read_csv(
        file,
        dtype=dict.fromkeys(TEXT, str),
        keep_default_na=False,
        na_values={"value": [""], "labelled": [""]},
        float_precision="round_trip",
    )
