"""Style shared by all plots: narrow enough for a phone, with colour-blind-safe colours."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

CELL = ["method", "budget"]
"""The columns that tell the curves of a plot apart."""

PANEL_WIDTH = 5.0
"""Inches."""
PANEL_HEIGHT = 2.9
"""Inches. Panels are stacked vertically."""
LEGEND_HEIGHT = 0.5
"""Inches."""

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""The colours of Okabe and Ito."""
LINESTYLES = ("-", "--", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
BAND_ALPHA = 0.18
"""Opacity of a band around a curve."""

MATPLOTLIB_SETTINGS: dict[Any, Any] = {
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
"""Active while figures are drawn and saved."""


class MethodStyle(NamedTuple):
    """How a method is drawn in every plot."""

    method: str
    color: str
    linestyle: str
    marker: str


def method_styles(methods: pd.Series) -> dict[str, MethodStyle]:
    """The style of every method of the report, by name.

    `methods` is a categorical column. Its categories are all methods of the report, so a method has
    the same style in every plot, whichever methods the plot shows.
    """
    styles = {}
    for index, category in enumerate(methods.cat.categories):
        method = str(category)
        round_of_palette = index // len(PALETTE)
        styles[method] = MethodStyle(
            method=method,
            color=PALETTE[index % len(PALETTE)],
            linestyle=LINESTYLES[round_of_palette % len(LINESTYLES)],
            marker=MARKERS[index % len(MARKERS)],
        )
    return styles


def make_panels(
    numbers: pd.DataFrame, by: str = "budget"
) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """A figure with one panel per value of `by`, and each panel's axes with its rows.

    A single budget needs no title.
    """
    groups = list(numbers.groupby(by, sort=by == "budget", observed=True))
    height = PANEL_HEIGHT * len(groups) + LEGEND_HEIGHT
    figure = Figure(figsize=(PANEL_WIDTH, height), layout="constrained")
    axes = figure.subplots(len(groups), squeeze=False)[:, 0]
    needs_titles = len(groups) > 1 or by != "budget"
    panels = []
    for axis, (name, rows) in zip(axes, groups, strict=True):
        if needs_titles:
            axis.set_title(panel_title(str(name)), loc="left")
        panels.append((axis, rows))
    return figure, panels


def panel_title(name: str) -> str:
    """The title of a panel: a budget that is a mere number says what it counts."""
    return f"{name} labelled" if name.isdigit() else name


def by_method(rows: pd.DataFrame) -> Iterator[tuple[MethodStyle, pd.DataFrame]]:
    """Yield the style and the rows of each method in a panel."""
    styles = method_styles(rows["method"])
    for method, method_rows in rows.groupby("method", observed=True):
        yield styles[str(method)], method_rows


DrawMethod = Callable[[Axes, pd.DataFrame, MethodStyle], None]
"""Draws the rows of one method into a panel."""


def plot_methods(numbers: pd.DataFrame, draw_method: DrawMethod, **axis_settings: Any) -> Figure:
    """Draw every method into the panel of its budget, with one legend below all panels."""
    figure, panels = make_panels(numbers)
    for axis, rows in panels:
        for style, method_rows in by_method(rows):
            draw_method(axis, method_rows, style)
        axis.set(**axis_settings)
    return add_legend(figure)


def draw_band(axis: Axes, x: pd.Series, low: pd.Series, high: pd.Series, color: str) -> None:
    """Shade the range from `low` to `high`."""
    axis.fill_between(x, low, high, color=color, alpha=BAND_ALPHA, lw=0)


def add_legend(figure: Figure) -> Figure:
    """Add one legend below all panels that names every label once, and return the figure."""
    handles: dict[str, Any] = {}
    for axis in figure.axes:
        axis_handles, labels = axis.get_legend_handles_labels()
        handles.update(zip(labels, axis_handles, strict=True))
    if handles:
        columns = _legend_columns(handles)
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)
    return figure


def _legend_columns(labels: Iterable[str]) -> int:
    """The number of columns that fit below a panel."""
    longest = max(len(label) for label in labels)
    if longest < 16:
        return 3
    if longest < 28:
        return 2
    return 1
