"""Reliability and risk-coverage curves: their numbers and plots."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from segpl.reporting.material import Material
from segpl.reporting.page.style import (
    CELL,
    MethodStyle,
    add_legend,
    make_panels,
    method_styles,
    plot_methods,
)

BINS = 20
"""Bins of probability in which the evaluation counted the reliability curves."""
CALIBRATED = "reliability_tempered"
"""The reliability curve after temperature scaling."""


def reliability(material: Material) -> pd.DataFrame:
    """The mean probability `x` and the fraction of foreground `y` of every bin.

    The voxels of all cases, regions and seeds are pooled.
    """
    rows = material.curves[material.curves["curve"].isin(("reliability", CALIBRATED))]
    if rows.empty:
        return pd.DataFrame()
    bins = (rows["x"].astype(float) * BINS).astype(int)
    last_bin = BINS - 1
    weighted = rows.assign(
        bin=np.minimum(bins, last_bin),
        x=rows["x"] * rows["voxels"],
        y=rows["y"] * rows["voxels"],
    )
    groups = weighted.groupby([*CELL, "curve", "bin"], sort=True)
    sums = groups[["x", "y", "voxels"]].sum().reset_index()
    voxels = sums["voxels"]
    return sums.assign(x=sums["x"] / voxels, y=sums["y"] / voxels)


def draw_reliability(numbers: pd.DataFrame) -> Figure:
    """Plot one curve per method; calibrated probabilities lie on the grey diagonal."""
    figure, panels = make_panels(numbers)
    styles = method_styles(numbers["method"])
    for axis, rows in panels:
        axis.plot([0, 1], [0, 1], color="#8a8a86", lw=1)
        for (curve, method), curve_rows in rows.groupby(["curve", "method"], observed=True):
            if curve == CALIBRATED:
                _calibrated_curve(axis, curve_rows, styles[str(method)])
            else:
                _reliability_curve(axis, curve_rows, styles[str(method)])
        axis.set(xlabel="probability", ylabel="fraction of foreground", xlim=(0, 1), ylim=(0, 1))
    return add_legend(figure)


def _reliability_curve(axis: Axes, rows: pd.DataFrame, style: MethodStyle) -> None:
    axis.plot(
        rows["x"],
        rows["y"],
        color=style.color,
        ls="-",
        lw=1.6,
        label=style.method,
        marker=style.marker,
        ms=3.5,
    )


def _calibrated_curve(axis: Axes, rows: pd.DataFrame, style: MethodStyle) -> None:
    axis.plot(
        rows["x"],
        rows["y"],
        color=style.color,
        ls="--",
        lw=0.9,
        label="dashed: after temperature scaling",
    )


def risk_coverage(material: Material) -> pd.DataFrame:
    """The percentage of wrong voxels `y` among the `x` per cent most confident voxels.

    The mean is over cases, regions and seeds.
    """
    rows = material.curves[material.curves["curve"] == "risk-coverage"]
    groups = rows.groupby([*CELL, "x"], sort=False)
    means = groups["y"].mean().reset_index()
    return means.assign(x=100 * means["x"], y=100 * means["y"])


def draw_risk_coverage(numbers: pd.DataFrame) -> Figure:
    """Plot one curve per method."""
    return plot_methods(
        numbers,
        _risk_coverage_curve,
        xlabel="most confident voxels, % of all",
        ylabel="wrong voxels among them, %",
        ylim=(0, None),
    )


def _risk_coverage_curve(axis: Axes, rows: pd.DataFrame, style: MethodStyle) -> None:
    axis.plot(
        rows["x"],
        rows["y"],
        color=style.color,
        ls=style.linestyle,
        lw=1.5,
        label=style.method,
    )
