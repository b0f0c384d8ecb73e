"""CSV files that hold names. All of them are written here.

Spreadsheets run a cell that starts with =, +, - or @ as a formula, and names come from files that
others made. Such a cell gets an apostrophe in front, which spreadsheets do not show and segpl's own
readers remove.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segpl.foundation.files import write_text

if TYPE_CHECKING:
    import pandas as pd

_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MARK = "'"


def write_rows(file: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write a CSV file atomically; a row without a column leaves its cell empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})
    write_text(file, text.getvalue())


def write_frame(file: Path, frame: "pd.DataFrame", float_format: str | None = None) -> None:
    """Write a table of pandas as CSV, atomically and without its index."""
    safe = frame.copy()
    for name in safe.columns:
        if safe[name].dtype.kind == "O":
            safe[name] = safe[name].map(_cell)
    safe.columns = [_cell(name) for name in safe.columns]
    write_text(file, safe.to_csv(index=False, float_format=float_format))


def escaped(text: str) -> str:
    """Text that a spreadsheet takes as text."""
    return _MARK + text if _is_formula(text.lstrip(_MARK)) else text


def unescaped(text: str) -> str:
    """The inverse of `escaped`."""
    is_escaped = text.startswith(_MARK) and _is_formula(text.lstrip(_MARK))
    return text[len(_MARK) :] if is_escaped else text


def _cell(value: Any) -> Any:
    if isinstance(value, str | Path):
        return escaped(str(value))
    return value


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet would run the text. A negative number is not run."""
    if not text.startswith(_STARTS_A_FORMULA):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return text[0] in "\t\r"
