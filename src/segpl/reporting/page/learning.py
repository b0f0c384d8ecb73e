"""What was learnt: numbers and figures of training, from log.csv."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from segpl.reporting.material import Material
from segpl.reporting.page.style import legend, lines, panels

POINTS = 100
"""Of a curve: more steps than that are averaged."""
CELL = ["method", "budget"]


def course(material: Material, column: str) -> pd.DataFrame:
    """A logged quantity over training: mean and range over seeds, and the smallest factor that the guard left alpha."""
    log = material.log
    if column not in log:
        return pd.DataFrame()
    log = log.assign(alpha_factor=log.get("alpha_factor", 1.0)).dropna(subset=column)
    width = max(1, int(np.ceil(log["step"].max() / POINTS))) if len(log) else 1
    log = log.assign(step=np.ceil(log["step"] / width) * width)
    columns = {"value": (column, "mean"), "alpha_factor": ("alpha_factor", "min")}
    runs = log.groupby([*CELL, "run", "step"], sort=False).agg(**columns).reset_index()
    over = {
        "mean": ("value", "mean"),
        "low": ("value", "min"),
        "high": ("value", "max"),
        "seeds": ("value", "size"),
    }
    return (
        runs.groupby([*CELL, "step"], sort=False)
        .agg(**over, guard=("alpha_factor", "min"))
        .reset_index()
    )


def draw_course(numbers: pd.DataFrame, label: str) -> Figure:
    """One line a method, a band over seeds, and a cross where the guard stepped in."""
    figure, parts = panels(numbers)
    for axis, part in parts:
        for method, look, line in lines(part):
            axis.fill_between(
                line["step"], line["low"], line["high"], color=look.color, alpha=0.18, lw=0
            )
            few: dict[str, Any] = {"marker": look.marker, "ms": 4} if len(line) < 15 else {}
            axis.plot(
                line["step"],
                line["mean"],
                color=look.color,
                ls=look.linestyle,
                lw=1.4,
                label=method,
                **few,
            )
            acted = line[line["guard"] < line["guard"].shift(fill_value=1.0)]
            if len(acted):
                axis.scatter(
                    acted["step"],
                    acted["mean"],
                    marker="X",
                    s=60,
                    color="black",
                    zorder=4,
                    label="guard acted",
                )
        axis.set(xlabel="step", ylabel=label, xlim=(0, None), ylim=(0, None))
    return legend(figure)


def thresholds(material: Material) -> pd.DataFrame:
    """The threshold and its posterior over training beside their prior, averaged over seeds."""
    wanted = ["threshold", "threshold_spread", "posterior_mean", "posterior_deviation"]
    if not set(wanted) <= set(material.log):
        return pd.DataFrame()
    log = material.log.dropna(subset=wanted)
    width = max(1, int(np.ceil(log["step"].max() / POINTS))) if len(log) else 1
    log = log.assign(step=np.ceil(log["step"] / width) * width)
    means = log.groupby([*CELL, "step"], sort=False)[wanted].mean().reset_index()
    priors_of = {
        (run.method, run.budget): prior_moments(_prior(run.settings)) for run in material.runs
    }
    pairs = zip(means["method"], means["budget"], strict=True)
    priors = np.array([priors_of[pair] for pair in pairs]).reshape(-1, 2)
    return means.assign(prior_mean=priors[:, 0], prior_deviation=priors[:, 1])


def _prior(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a run believes of T beforehand: the setting called prior, wherever in run.yaml it stands."""
    if isinstance(settings.get("prior"), dict):
        return settings["prior"]
    for value in settings.values():
        found = _prior(value) if isinstance(value, dict) else {}
        if found:
            return found
    return {}


def prior_moments(prior: Mapping[str, Any]) -> tuple[float, float]:
    """Mean and deviation of a prior as run.yaml describes it; undefined where it has none."""
    match prior:
        case {"mean": mean, "deviation": deviation}:
            return float(mean), float(deviation)
        case {"a": a, "b": b}:
            return float(stats.beta.mean(a, b)), float(stats.beta.std(a, b))
        case {"thresholds": values}:
            mean = np.average(values, weights=prior.get("weights") or None)
            variance = np.average(
                (np.array(values) - mean) ** 2, weights=prior.get("weights") or None
            )
            return float(mean), float(np.sqrt(variance))
        case {"name": "uniform"}:
            return 0.5, 12**-0.5
        case {"name": "fixed"}:
            return float(prior["threshold"]), 0.0
    return np.nan, np.nan


def draw_thresholds(numbers: pd.DataFrame) -> Figure:
    """Priors as grey bands, posteriors as coloured ones, and the thresholds that were drawn as dots."""
    figure, parts = panels(numbers)
    for axis, part in parts:
        for method, look, line in lines(part):
            color = look.color
            bands = (
                ("posterior", color, "-", f"{method}: posterior"),
                ("prior", "#5c5c57", "--", "prior, ± 1 deviation"),
            )
            for name, shade, stroke, label in bands:
                low, high = (
                    line[f"{name}_mean"] + sign * line[f"{name}_deviation"] for sign in (-1, 1)
                )
                axis.fill_between(line["step"], low, high, color=shade, alpha=0.2, lw=0)
                axis.plot(
                    line["step"], line[f"{name}_mean"], color=shade, lw=1.5, ls=stroke, label=label
                )
            axis.plot(
                line["step"],
                line["threshold"],
                color=color,
                lw=0.8,
                ls=":",
                label="dotted: drawn in the batch",
            )
        axis.set(xlabel="step", ylabel="threshold T", xlim=(0, None), ylim=(0, 1))
    return legend(figure)
