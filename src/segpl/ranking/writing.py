"""The ranking as a CSV file, as a table on the terminal and as a picture."""

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from segpl.data.cases import Case
from segpl.foundation.files import write_bytes
from segpl.foundation.tables import write_rows
from segpl.reporting.rank_sheet import Row, draw_sheet
from segpl.reporting.render import print_table
from segpl.reporting.table import Column, Format, Table, text_column
from segpl.reporting.table import Row as TableRow

ROWS_ON_TERMINAL = 20
"""Scans on the terminal, unless the user asks for another number."""


class Ranked(NamedTuple):
    """A row of `rank.csv`."""

    rank: int
    case: str
    score: float
    uncertainty: float
    novelty: float
    disagreement: float
    slice: int
    reason: str
    file: Path


def write_ranking(
    file: Path,
    ranking: Sequence[Ranked],
    failed: Mapping[Case, str],
) -> None:
    """Write all ranked scans and, without numbers, those that failed, with the error as reason."""
    rows: list[dict[str, object]] = []
    for scan in ranking:
        values = scan._asdict()
        rows.append({name: _cell(value) for name, value in values.items()})
    for case, error in failed.items():
        rows.append({"case": case.name, "reason": error, "file": case.images[0]})
    write_rows(file, Ranked._fields, rows)


def _cell(value: object) -> object:
    """A value as it is written; undefined numbers stay empty."""
    if not isinstance(value, float):
        return value
    return "" if math.isnan(value) else f"{value:.6g}"


def write_sheet(
    file: Path,
    rows: Sequence[Row],
    regions: Mapping[int, str],
) -> None:
    """Write the contact sheet as PNG; `regions` names the values of the masks."""
    content = io.BytesIO()
    draw_sheet(rows, regions).savefig(content, format="png", dpi=110)
    write_bytes(file, content.getvalue())


def print_ranking(ranking: Sequence[Ranked], count: int | None) -> None:
    """Print the first `count` scans, or ROWS_ON_TERMINAL by default."""
    printed = ranking[: count or ROWS_ON_TERMINAL]
    print_table(ranking_table(printed))
    more = len(ranking) - len(printed)
    if more > 0:
        Console(soft_wrap=True, markup=False).print(f"and {more} more")


def ranking_table(ranking: Sequence[Ranked]) -> Table:
    """Rank and name of each scan, the numbers behind its rank, and the reason."""
    two_digits = Format(".2f")
    columns = [
        Column("rank"),
        text_column("case"),
        Column("uncertain", two_digits),
        Column("novel", two_digits),
        Column("disagrees", two_digits),
        Column("slice"),
        text_column("why", wraps=True),
    ]
    rows: list[TableRow] = []
    for scan in ranking:
        row: TableRow = [
            scan.rank,
            scan.case,
            scan.uncertainty,
            scan.novelty,
            scan.disagreement,
            scan.slice,
            scan.reason,
        ]
        rows.append(row)
    return Table("Scans to label next, most useful first", columns, [rows])
