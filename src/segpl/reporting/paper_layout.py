"""The results of a study in the layout of the paper's tables: a row per budget, methods across."""

from collections.abc import Sequence

import pandas as pd

from segpl.reporting.study_numbers import HEADLINE, Layout
from segpl.reporting.study_text import AVERAGING, SELECTION
from segpl.reporting.table import Column, Format, Row, Spread, Table, text_column

HERE = "this study"
PAPER = "paper"
PER_CENT = Format(".2f", 100)
PAPER_PER_CENT = Format(".2f")
"""The paper's scores are in per cent already."""
FOUR_DIGITS = Format(".4g")
COST_ROWS = {
    "training s": ("seconds", 1.0, "paper_seconds", 1.0),
    "GFLOP": ("flops_learning", 1e-9, "paper_gigaflops", 1.0),
    "parameters K": ("parameters", 1e-3, "paper_parameters", 1e-3),
}
"""Title of a row, its key and factor in our numbers, and its key and factor in the paper's."""


def paper_layout_table(numbers: pd.DataFrame, cost: pd.DataFrame, layout: Layout) -> Table:
    """Foreground IoU in per cent, then the cost, each with the paper's figures in the next row.

    `numbers` and `cost` are those of the tables of comparison and of cost; `cost` may be empty.
    """
    columns = [text_column("labelled"), text_column("source")]
    for method in layout.methods:
        columns.append(Column(method))
    groups = []
    for budget, rows in numbers.groupby("budget", sort=False):
        groups.append(_score_rows(str(budget), rows.set_index("method"), layout))
    if layout.paper_cost and not cost.empty:
        groups.append(_cost_rows(_with_flops_of_learning(cost).set_index("method"), layout))
    notes = [
        f"Foreground IoU in per cent. {AVERAGING}",
        SELECTION,
        f"The paper's figures are its own ({layout.paper}), on its own data and machine. "
        "The paper does not say whether background counts.",
        *_cost_notes(layout),
        *layout.notes,
    ]
    return Table(f"{layout.title}: the layout of the paper", columns, groups, notes)


def _with_flops_of_learning(cost: pd.DataFrame) -> pd.DataFrame:
    """The cost with the operations of learning from one image, which the paper's figures match.

    The image is an unlabelled one, or a labelled one for a method that uses no others.
    """
    labelled = cost["flops_labelled"]
    unlabelled = cost["flops_unlabelled"]
    return cost.assign(flops_learning=unlabelled.where(unlabelled > 0, labelled))


def _cost_notes(layout: Layout) -> list[str]:
    if not layout.paper_cost:
        return []
    return [
        "GFLOP are those of a forward pass to learn from an unlabelled image, if there are any."
    ]


def _score_rows(budget: str, rows: pd.DataFrame, layout: Layout) -> Sequence[Row]:
    here: list[str] = []
    paper: list[str] = []
    for method in layout.methods:
        here.append(PER_CENT.text(_spread(rows, method, HEADLINE)))
        paper.append(PAPER_PER_CENT.text(_spread(rows, method, PAPER)))
    return [[budget, HERE, *here], [budget, PAPER, *paper]]


def _spread(rows: pd.DataFrame, method: str, score: str) -> Spread:
    """Mean and standard deviation of a score of one method."""
    return Spread(float(rows[f"{score}_mean"][method]), float(rows[f"{score}_std"][method]))


def _cost_rows(cost: pd.DataFrame, layout: Layout) -> Sequence[Row]:
    rows: list[Row] = []
    for title, (key, factor, paper_key, paper_factor) in COST_ROWS.items():
        rows.append([title, HERE, *_texts(cost[key], factor, layout.methods)])
        rows.append([title, PAPER, *_texts(cost[paper_key], paper_factor, layout.methods)])
    return rows


def _texts(values: pd.Series, factor: float, methods: Sequence[str]) -> list[str]:
    return [FOUR_DIGITS.text(factor * values[method]) for method in methods]
