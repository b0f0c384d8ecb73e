"""How the report's figures look: narrow enough for a telephone, colours that everybody can tell apart."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH, HEIGHT = 5.0, 2.9
"""Inches of one panel; panels stand below each other."""
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Of Okabe and Ito."""
STROKES = ("-", "--", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    "font.family": "sans-serif",
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#d8d8d4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.fonttype": "none",
    "text.parse_math": False,  # a case may be called a$b$
    "savefig.transparent": False,
}
"""Of matplotlib, while figures are drawn and saved."""


class Look(NamedTuple):
    """How a method is drawn in every figure."""

    color: str
    linestyle: str
    marker: str


def looks(methods: pd.Series) -> dict[str, Look]:
    """One for each method that the report knows, shown here or not: `methods` is a categorical column."""
    return {
        str(name): Look(
            PALETTE[n % len(PALETTE)], STROKES[n // len(PALETTE) % 3], MARKERS[n % len(MARKERS)]
        )
        for n, name in enumerate(methods.cat.categories)
    }


def panels(
    numbers: pd.DataFrame, by: str = "budget"
) -> tuple[Figure, Iterator[tuple[Axes, pd.DataFrame]]]:
    """A figure with a panel for each value of `by`, below each other; a single budget needs no title."""
    parts = [
        (str(name), part) for name, part in numbers.groupby(by, sort=by == "budget", observed=True)
    ]
    figure = Figure(figsize=(WIDTH, HEIGHT * len(parts) + 0.5), layout="constrained")
    axes = figure.subplots(len(parts), squeeze=False)[:, 0]
    if len(parts) > 1 or by != "budget":
        for axis, (name, _) in zip(axes, parts, strict=True):
            axis.set_title(f"{name} labelled" if name.isdigit() else name, loc="left")
    return figure, zip(axes, (part for _, part in parts), strict=True)


def lines(part: pd.DataFrame) -> Iterator[tuple[str, Look, pd.DataFrame]]:
    """The rows of each method in a panel, and how it is drawn."""
    styles = looks(part["method"])
    for method, rows in part.groupby("method", observed=True):
        yield str(method), styles[str(method)], rows


def legend(figure: Figure) -> Figure:
    """One legend below all panels, every name once."""
    named = {
        label: handle
        for axis in figure.axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    if named:
        columns = 3 if max(map(len, named)) < 16 else 2 if max(map(len, named)) < 28 else 1
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns)
    return figure
