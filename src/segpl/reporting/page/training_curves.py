"""Curves of training from log.csv: losses, pseudo-labels and the learnt threshold."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from scipy import stats

from segpl.reporting.material import Material
from segpl.reporting.page.style import (
    CELL,
    LEGEND_HEIGHT,
    PANEL_WIDTH,
    MethodStyle,
    add_legend,
    by_method,
    draw_band,
    make_panels,
    panel_title,
    plot_methods,
)

POINTS = 100
"""Points of a curve. In a longer log, consecutive steps are averaged."""
MARKER_LIMIT = 15
"""Curves with fewer points than this get markers."""
THRESHOLD_COLUMNS = ["threshold", "threshold_spread", "posterior_mean", "posterior_deviation"]
PRIOR_COLOUR = "#5c5c57"
INFERENCE_PANEL_HEIGHT = 1.4
"""Inches, of a panel with the prior and the posterior of one method."""
BOUND_HEIGHT = 2
"""Height of the panel with the bounds, relative to that of a posterior."""


def training_curve(material: Material, column: str) -> pd.DataFrame:
    """A logged quantity over the steps: its mean and range over seeds.

    `guard` is the smallest factor that the guard left of alpha so far in any seed; 1 means that
    the guard never intervened.
    """
    if column not in material.log:
        return pd.DataFrame()
    log = material.log
    log = log.assign(alpha_factor=log.get("alpha_factor", 1.0)).dropna(subset=column)
    log = _binned(log)
    runs = log.groupby([*CELL, "run", "step"], sort=False).agg(
        value=(column, "mean"),
        alpha_factor=("alpha_factor", "min"),
    )
    seeds = (
        runs.reset_index()
        .groupby([*CELL, "step"], sort=False)
        .agg(
            mean=("value", "mean"),
            low=("value", "min"),
            high=("value", "max"),
            seeds=("value", "size"),
            guard=("alpha_factor", "min"),
        )
    )
    return seeds.reset_index()


def _binned(log: pd.DataFrame) -> pd.DataFrame:
    """Round steps up so that at most about `POINTS` different steps remain."""
    if log.empty:
        return log
    steps = log["step"]
    width = max(1, int(np.ceil(steps.max() / POINTS)))
    return log.assign(step=np.ceil(steps / width) * width)


def draw_training_curve(numbers: pd.DataFrame, label: str) -> Figure:
    """Plot one line per method, a band over seeds, and a cross where the guard intervened."""
    return plot_methods(
        numbers,
        _draw_curve,
        xlabel="step",
        ylabel=label,
        xlim=(0, None),
        ylim=(0, None),
    )


def _draw_curve(axis: Axes, curve: pd.DataFrame, style: MethodStyle) -> None:
    draw_band(axis, curve["step"], curve["low"], curve["high"], style.color)
    has_markers = len(curve) < MARKER_LIMIT
    axis.plot(
        curve["step"],
        curve["mean"],
        color=style.color,
        ls=style.linestyle,
        lw=1.4,
        label=style.method,
        marker=style.marker if has_markers else None,
        ms=4,
    )
    previous_factor = curve["guard"].shift(fill_value=1.0)
    interventions = curve[curve["guard"] < previous_factor]
    if len(interventions):
        axis.scatter(
            interventions["step"],
            interventions["mean"],
            marker="X",
            s=60,
            color="black",
            zorder=4,
            label="guard reduced alpha",
        )


def thresholds(material: Material) -> pd.DataFrame:
    """The threshold T and its posterior over the steps, with the prior; seeds are averaged."""
    if not set(THRESHOLD_COLUMNS) <= set(material.log):
        return pd.DataFrame()
    log = _binned(material.log.dropna(subset=THRESHOLD_COLUMNS))
    groups = log.groupby([*CELL, "step"], sort=False)
    means = groups[THRESHOLD_COLUMNS].mean().reset_index()
    prior_means = {}
    prior_deviations = {}
    for run in material.runs:
        cell = (run.method, run.budget)
        mean, deviation = prior_moments(find_prior(run.settings))
        prior_means[cell] = mean
        prior_deviations[cell] = deviation
    cells = list(zip(means["method"], means["budget"], strict=True))
    return means.assign(
        prior_mean=[prior_means[cell] for cell in cells],
        prior_deviation=[prior_deviations[cell] for cell in cells],
    )


def threshold_inference(material: Material) -> pd.DataFrame:
    """Prior, posterior and bound over the steps, for the runs that log the bound of Eq. 7.

    Of the bound there are the mean and the range over seeds.
    """
    if "bound" not in material.log:
        return pd.DataFrame()
    inferring = replace(material, log=material.log.dropna(subset="bound"))
    posteriors = thresholds(inferring)
    if posteriors.empty:
        return posteriors
    names = {"mean": "bound", "low": "bound_low", "high": "bound_high"}
    bounds = training_curve(inferring, "bound").rename(columns=names)
    return posteriors.merge(bounds[[*CELL, "step", *names.values()]], on=[*CELL, "step"])


def find_prior(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The setting called `prior`, at whatever depth of run.yaml; empty if there is none."""
    prior = settings.get("prior")
    if isinstance(prior, dict):
        return prior
    for value in settings.values():
        nested_prior = find_prior(value) if isinstance(value, dict) else {}
        if nested_prior:
            return nested_prior
    return {}


def prior_moments(prior: Mapping[str, Any]) -> tuple[float, float]:
    """Mean and standard deviation of a prior in run.yaml; NaN for an unknown prior."""
    match prior:
        case {"mean": mean, "deviation": deviation}:
            return float(mean), float(deviation)
        case {"a": a, "b": b}:
            beta = stats.beta(a, b)
            return float(beta.mean()), float(beta.std())
        case {"thresholds": values}:
            return _categorical_moments(np.array(values), prior.get("weights") or None)
        case {"name": "uniform"}:
            return 0.5, 12**-0.5
        case {"name": "fixed"}:
            return float(prior["threshold"]), 0.0
    return np.nan, np.nan


def _categorical_moments(values: np.ndarray, weights: list[float] | None) -> tuple[float, float]:
    mean = np.average(values, weights=weights)
    variance = np.average((values - mean) ** 2, weights=weights)
    return float(mean), float(np.sqrt(variance))


def draw_thresholds(numbers: pd.DataFrame) -> Figure:
    """Plot each prior in grey, each posterior in colour, and the drawn thresholds as dots."""
    figure, panels = make_panels(numbers)
    for axis, rows in panels:
        _draw_priors(axis, rows)
        for style, curve in by_method(rows):
            _draw_posterior(axis, curve, style)
            _draw_drawn_thresholds(axis, curve, style)
        axis.set(xlabel="step", ylabel="threshold T", xlim=(0, None), ylim=(0, 1))
    return add_legend(figure)


def _draw_drawn_thresholds(axis: Axes, curve: pd.DataFrame, style: MethodStyle) -> None:
    axis.plot(
        curve["step"],
        curve["threshold"],
        color=style.color,
        lw=0.8,
        ls=":",
        label="dotted: drawn in the batch",
    )


def draw_threshold_inference(numbers: pd.DataFrame) -> Figure:
    """Plot prior and posterior in a panel for each method, and all bounds in the panel below."""
    groups = list(numbers.groupby("budget", observed=True))
    panel_count = sum(rows["method"].nunique() + BOUND_HEIGHT for _, rows in groups)
    height = INFERENCE_PANEL_HEIGHT * panel_count + LEGEND_HEIGHT
    figure = Figure(figsize=(PANEL_WIDTH, height), layout="constrained")
    parts = figure.subfigures(len(groups), squeeze=False)[:, 0]
    for part, (budget, rows) in zip(parts, groups, strict=True):
        if len(groups) > 1:
            part.suptitle(panel_title(str(budget)), x=0.02, ha="left")
        _draw_inference_at_budget(part, rows)
    return add_legend(figure)


def _draw_inference_at_budget(figure: SubFigure, rows: pd.DataFrame) -> None:
    curves = list(by_method(rows))
    heights = [1] * len(curves) + [BOUND_HEIGHT]
    axes = figure.subplots(len(heights), sharex=True, height_ratios=heights)
    for axis, (style, curve) in zip(axes[:-1], curves, strict=True):
        _draw_priors(axis, curve)
        _draw_posterior(axis, curve, style)
        axis.set_title(style.method, loc="left", size="medium")
        axis.set(ylabel="T", xlim=(0, None), ylim=(0, 1))
    for style, curve in curves:
        _draw_bound(axes[-1], curve, style)
    axes[-1].set(xlabel="step", ylabel="bound (Eq. 7)")


def _draw_priors(axis: Axes, rows: pd.DataFrame) -> None:
    """Draw each prior of a panel once, however many methods have it."""
    last_step = rows["step"].max()
    for mean, deviation in rows[["prior_mean", "prior_deviation"]].drop_duplicates().to_numpy():
        line = pd.DataFrame({"step": [0, last_step], "mean": mean, "deviation": deviation})
        _draw_distribution(axis, line, PRIOR_COLOUR, ls="--", label="prior ± 1 standard deviation")


def _draw_posterior(axis: Axes, curve: pd.DataFrame, style: MethodStyle) -> None:
    line = curve[["step"]].assign(
        mean=curve["posterior_mean"], deviation=curve["posterior_deviation"]
    )
    _draw_distribution(axis, line, style.color, ls="-", label=f"{style.method}: posterior")


def _draw_bound(axis: Axes, curve: pd.DataFrame, style: MethodStyle) -> None:
    draw_band(axis, curve["step"], curve["bound_low"], curve["bound_high"], style.color)
    # Without a label: the legend names the method's colour already.
    axis.plot(curve["step"], curve["bound"], color=style.color, lw=1.4, ls=style.linestyle)


def _draw_distribution(axis: Axes, line: pd.DataFrame, color: str, ls: str, label: str) -> None:
    """Draw the mean of a distribution of T with a band of one standard deviation on each side."""
    low = line["mean"] - line["deviation"]
    high = line["mean"] + line["deviation"]
    axis.fill_between(line["step"], low, high, color=color, alpha=0.2, lw=0)
    axis.plot(line["step"], line["mean"], color=color, lw=1.5, ls=ls, label=label)
