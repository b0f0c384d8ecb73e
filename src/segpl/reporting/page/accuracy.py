"""Accuracy by subject, by size of the foreground and against a baseline: numbers and plots."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from segpl.reporting.material import Material
from segpl.reporting.page.style import (
    CELL,
    MethodStyle,
    add_legend,
    by_method,
    make_panels,
    method_styles,
)
from segpl.reporting.statistics import BlandAltman, bland_altman, by_size, per_subject

STRIP_WIDTH = 0.5
"""Width of a method's points in the strip plot; methods are 1 apart."""
MEAN_BAR_HALF_WIDTH = 0.35
MANY_POINTS = 200
"""More points than this are drawn smaller."""
METHOD_OFFSET = 0.06
"""Horizontal distance between two methods at the same size, so that error bars do not overlap."""


def subject_scores(material: Material) -> pd.DataFrame:
    """The IoU in per cent of every subject in every run; undefined values are left out."""
    if material.clean.empty:
        return pd.DataFrame()
    scores = per_subject(material.clean).dropna(subset="value")
    budgets = {run.name: run.budget for run in material.runs}
    scores = scores.assign(budget=scores["run"].map(budgets), value=100 * scores["value"])
    return scores[[*CELL, "run", "seed", "subject", "value"]]


def draw_subject_scores(numbers: pd.DataFrame) -> Figure:
    """Plot one strip per method: a point per subject and seed, and a bar at the mean."""
    figure, panels = make_panels(numbers)
    styles = method_styles(numbers["method"])
    for axis, rows in panels:
        methods = _present_categories(rows["method"])
        for position, method in enumerate(methods):
            method_rows = rows[rows["method"] == method]
            _draw_strip(axis, position, method_rows, styles[method])
        rotation = 25 if len(methods) > 4 else 0
        axis.set_xticks(range(len(methods)), methods, rotation=rotation)
        lowest = min(0, rows["value"].min())
        rightmost = len(methods) - 0.4
        axis.set(ylabel="IoU %", ylim=(lowest, None), xlim=(-0.6, rightmost))
        axis.grid(visible=False, axis="x")
    return figure


def _draw_strip(axis: Axes, position: int, rows: pd.DataFrame, style: MethodStyle) -> None:
    """Draw the points of one method; a subject has the same offset in every strip."""
    subject_numbers = pd.factorize(rows["subject"], sort=True)[0]
    relative = (subject_numbers + 0.5) / (subject_numbers.max() + 1)
    axis.scatter(
        position + STRIP_WIDTH * (relative - 0.5),
        rows["value"],
        s=18,
        color=style.color,
        marker=style.marker,
        alpha=0.75,
        lw=0,
    )
    mean = rows["value"].mean()
    left = position - MEAN_BAR_HALF_WIDTH
    right = position + MEAN_BAR_HALF_WIDTH
    axis.hlines(mean, left, right, color="black", lw=1.5)


def _present_categories(column: pd.Series) -> list[str]:
    """The categories that occur in a categorical column, in their order."""
    names = []
    for category in column.cat.categories:
        if (column == category).any():
            names.append(str(category))
    return names


def scores_by_size(material: Material) -> pd.DataFrame:
    """The IoU of images in per cent, by the foreground's share of the image."""
    if material.images.empty:
        return pd.DataFrame()
    scores = by_size(material.images, by=CELL)
    if scores.empty:
        return scores
    return scores.assign(mean=100 * scores["mean"], spread=100 * scores["spread"])


def draw_scores_by_size(numbers: pd.DataFrame) -> Figure:
    """Plot one line per method; error bars are the standard deviation over images."""
    figure, panels = make_panels(numbers)
    sizes = _present_categories(numbers["size"])
    for axis, rows in panels:
        for index, (style, method_rows) in enumerate(by_method(rows)):
            positions = np.array([sizes.index(str(size)) for size in method_rows["size"]])
            axis.errorbar(
                positions + METHOD_OFFSET * index,
                method_rows["mean"],
                method_rows["spread"],
                color=style.color,
                ls=style.linestyle,
                marker=style.marker,
                ms=4,
                lw=1.3,
                elinewidth=0.6,
                label=style.method,
            )
        axis.set_xticks(range(len(sizes)), sizes)
        axis.set(xlabel="foreground, % of the image", ylabel="IoU %", ylim=(0, None))
    return add_legend(figure)


def differences_from_baseline(material: Material) -> pd.DataFrame:
    """Each subject's difference from the baseline in IoU points, with bias and 95 % limits.

    Seeds are averaged. Budgets without the baseline are left out.
    """
    baseline = material.baseline
    scores = subject_scores(material)
    if scores.empty or baseline is None:
        return pd.DataFrame()
    subject_means = scores.groupby(["budget", "method", "subject"], sort=False)["value"].mean()
    cells = subject_means.droplevel("subject").index.drop_duplicates()
    tables = []
    for budget, method in cells:
        if method != baseline and (budget, baseline) in cells:
            agreement = bland_altman(subject_means[budget, method], subject_means[budget, baseline])
            tables.append(agreement_rows(agreement, method, budget, baseline))
    if not tables:
        return pd.DataFrame()
    return pd.concat(tables, ignore_index=True)


def agreement_rows(agreement: BlandAltman, method: str, budget: str, baseline: str) -> pd.DataFrame:
    """One row per subject or image; `bias`, `low` and `high` are the same in all rows."""
    low, high = agreement.limits
    columns = {
        "method": method,
        "budget": budget,
        "baseline": baseline,
        "mean": agreement.means,
        "difference": agreement.differences,
        "bias": agreement.bias,
        "low": low,
        "high": high,
    }
    return pd.DataFrame(columns)


def draw_differences(numbers: pd.DataFrame) -> Figure:
    """Plot difference over mean (Bland and Altman), with the bias and the 95 % limits."""
    figure, panels = make_panels(numbers)
    for axis, rows in panels:
        axis.axhline(0, color="black", lw=0.8)
        for style, method_rows in by_method(rows):
            draw_agreement(axis, method_rows, style)
        baseline = rows["baseline"].iloc[0]
        axis.set(
            xlabel=f"mean IoU % of method and {baseline}",
            ylabel=f"difference from {baseline}, IoU points",
        )
    return add_legend(figure)


def draw_agreement(axis: Axes, rows: pd.DataFrame, style: MethodStyle) -> None:
    """Draw the points of one method, its bias and its limits of agreement."""
    has_many_points = len(rows) > MANY_POINTS
    axis.scatter(
        rows["mean"],
        rows["difference"],
        s=8 if has_many_points else 22,
        lw=0,
        c=style.color,
        marker=style.marker,
        label=style.method,
        rasterized=has_many_points,  # as vectors they would make a large page
    )
    first = rows.iloc[0]
    axis.axhline(first["bias"], color=style.color, lw=1.4)
    axis.axhline(first["low"], color=style.color, lw=0.8, ls="--")
    axis.axhline(first["high"], color=style.color, lw=0.8, ls="--")
