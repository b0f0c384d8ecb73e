"""Tables for people as Markdown and LaTeX: the best of a group stands out, the second best a little less."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Mark(Enum):
    """How a cell stands out: as in the paper, the best is bold and red, the second best bold and blue."""

    NONE = "{}"
    BEST = r"\textbf{{\textcolor{{red}}{{{}}}}}"
    SECOND = r"\textbf{{\textcolor{{blue}}{{{}}}}}"


class Cell(NamedTuple):
    """What stands in one place."""

    text: str
    mark: Mark = Mark.NONE


@dataclass(frozen=True)
class TextTable:
    """A title, columns, rows in groups, and what must be known to read them."""

    title: str
    columns: Sequence[str]
    groups: Sequence[Sequence[Sequence[Cell]]]
    notes: Sequence[str]


IN_MARKDOWN = {Mark.NONE: "{}", Mark.BEST: "**{}**", Mark.SECOND: "*{}*"}
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "–": "--"}


def markdown(table: TextTable) -> str:
    """As a README shows it."""

    def row(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    lines = [f"## {table.title}", "", row(table.columns), row(["---"] * len(table.columns))]
    lines += [row(cells) for cells in _rows(table, lambda cell: IN_MARKDOWN[cell.mark].format(cell.text))]
    notes = [*_legend(table, "Bold is the best, italic the second best"), *table.notes]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes), ""])


def latex(table: TextTable) -> str:
    """As an article takes it in; it needs the package xcolor."""
    groups = [
        " \\\\\n".join(" & ".join(cells) for cells in _rows(table, _in_latex, number)) + " \\\\\n\\hline"
        for number in range(len(table.groups))
    ]
    notes = [table.title + ".", *_legend(table, "Red is the best, blue the second best"), *table.notes]
    head = " & ".join(f"\\bfseries {escaped(column)}" for column in table.columns)
    lines = [
        "\\begin{table}",
        f"\\caption{{{escaped(' '.join(notes))}}}",
        "\\centering",
        f"\\begin{{tabular}}{{{'l' * len(table.columns)}}}",
        "\\hline",
        f"{head} \\\\",
        "\\hline",
        *groups,
        "\\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return re.sub(r"[\\~^±–&%$#_{}]", lambda found: SPECIAL.get(found[0], f"\\{found[0]}"), text)


def _in_latex(cell: Cell) -> str:
    return cell.mark.value.format(escaped(cell.text))


def _legend(table: TextTable, said: str) -> list[str]:
    """What the marks mean, where there are any."""
    marked = any(cell.mark is not Mark.NONE for group in table.groups for cells in group for cell in cells)
    return [f"{said} of each group of rows."] if marked else []


def _rows(table: TextTable, written: Callable[[Cell], str], group: int | None = None) -> list[list[str]]:
    """The rows of one group, or of all, as text."""
    groups = table.groups if group is None else [table.groups[group]]
    return [[written(cell) for cell in cells] for rows in groups for cells in rows]
