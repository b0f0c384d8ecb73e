"""The order as a file, as a table on the terminal and as a picture."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from segpl.data.cases import Case
from segpl.foundation.files import write_bytes, write_text
from segpl.reporting.rank_sheet import Row, draw_sheet
from segpl.reporting.render import print_table
from segpl.reporting.table import Column, Format, Table, text_column
from segpl.reporting.table import Row as Cells

SHOWN = 20
"""Scans on the terminal, unless more are asked for."""


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


def write_order(file: Path, order: Sequence[Ranked], failed: Mapping[Case, str]) -> None:
    """All that were ranked and, without numbers, those that could not be."""
    text = io.StringIO()
    table = csv.DictWriter(text, Ranked._fields, lineterminator="\n")
    table.writeheader()
    table.writerows(
        {name: _cell(value) for name, value in each._asdict().items()} for each in order
    )
    table.writerows(
        {"case": case.name, "reason": why, "file": case.images[0]} for case, why in failed.items()
    )
    write_text(file, text.getvalue())


def _cell(value: object) -> object:
    """Undefined numbers stay empty."""
    return value if not isinstance(value, float) else "" if value != value else f"{value:.6g}"


def write_sheet(file: Path, rows: Sequence[Row], regions: Mapping[int, str]) -> None:
    """The picture as PNG."""
    content = io.BytesIO()
    draw_sheet(rows, regions).savefig(content, format="png", dpi=110)
    write_bytes(file, content.getvalue())


def print_order(order: Sequence[Ranked], count: int | None) -> None:
    """The first scans of the order."""
    shown = order[: count or SHOWN]
    print_table(order_table(shown))
    if len(order) > len(shown):
        Console(soft_wrap=True).print(f"and {len(order) - len(shown)} more")


def order_table(order: Sequence[Ranked]) -> Table:
    """Rank and name of each scan, the three numbers behind its rank, and the reason in words."""
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
    rows: list[Cells] = []
    for scan in order:
        numbers = scan.uncertainty, scan.novelty, scan.disagreement
        rows.append([scan.rank, scan.case, *numbers, scan.slice, scan.reason])
    return Table("Scans to label next, most useful first", columns, [rows])
