"""What `segpl doctor` shows of a folder that is ambiguous, or that no layout recognises."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from segpl.data.layouts import LAYOUTS
from segpl.data.layouts.ambiguity import AmbiguousFolderError, CandidateCase

SHOWN_CASES = 20
"""Cases in the table; the ambiguous ones come first."""


def print_candidates(console: Console, cases: Sequence[CandidateCase]) -> None:
    """Print the cases that would be read as a table."""
    table = Table(box=None)
    for column in ("case", "subject", "images", "label"):
        table.add_column(column, overflow="fold")
    for case in cases[:SHOWN_CASES]:
        row = [case.name, case.subject, _names(case.images, ", "), _label(case.labels)]
        table.add_row(*[escape(cell) for cell in row])
    console.print(table)
    more = len(cases) - SHOWN_CASES
    if more > 0:
        console.print(f"and {more} further cases")


def _label(labels: Sequence[Path]) -> str:
    return _names(labels, " or ") if labels else "none"


def _names(files: Sequence[Path], separator: str) -> str:
    """Folder and name of each file."""
    return separator.join(f"{file.parent.name}/{file.name}" for file in files)


def candidates_as_json(ambiguity: AmbiguousFolderError | None) -> list[dict[str, Any]]:
    """All cases that would be read; none if the folder is not ambiguous."""
    if ambiguity is None:
        return []
    rows = []
    for case in ambiguity.cases:
        rows.append(
            {
                "case": case.name,
                "subject": case.subject,
                "images": [str(file) for file in case.images],
                "labels": [str(file) for file in case.labels],
                "split": case.split,
            }
        )
    return rows


def print_layouts(console: Console) -> None:
    """Print the layouts that segpl knows, each with a small example."""
    console.print("The known layouts:")
    for layout in reversed(LAYOUTS):
        console.print(f"\n{layout.NAME}: {layout.DESCRIPTION}", markup=False)
        console.print(indent(layout.TREE.strip("\n"), "    "), markup=False)
    console.print("")
