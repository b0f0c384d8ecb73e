"""Cost of training and prediction: numbers per run, and accuracy over training time."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from segpl.reporting.material import Material
from segpl.reporting.page.accuracy import subject_scores
from segpl.reporting.page.style import CELL, MethodStyle, plot_methods
from segpl.reporting.run_folder import RunFolder
from segpl.rundir import COST_FILE


def run_costs(material: Material) -> pd.DataFrame:
    """One row per run that has a cost.json; what a run did not record is undefined."""
    rows = []
    for run in material.runs:
        training_cost = run.read(COST_FILE)
        if training_cost:
            rows.append(_run_cost(run, training_cost))
    return pd.DataFrame(rows)


def _run_cost(run: RunFolder, training_cost: dict[str, Any]) -> dict[str, Any]:
    prediction_cost = run.read(run.scoring.prediction_cost.name)
    seconds = run.facts.seconds
    return {
        "run": run.name,
        "method": run.method,
        "budget": run.budget,
        **training_cost,
        "seconds": np.nan if seconds is None else seconds,
        "voxels_per_second": prediction_cost.get("voxels_per_second", np.nan),
    }


def accuracy_and_cost(material: Material) -> pd.DataFrame:
    """Seconds of training, thousands of parameters and mean IoU in per cent of every run."""
    costs = run_costs(material)
    scores = subject_scores(material)
    if costs.empty or scores.empty:
        return pd.DataFrame()
    means = scores.groupby("run", sort=False)["value"].mean()
    mean_iou = means.rename("iou").reset_index()
    costs["parameters_k"] = costs["parameters"] / 1000 if "parameters" in costs else np.nan
    return costs[["run", *CELL, "seconds", "parameters_k"]].merge(mean_iou, on="run")


def draw_accuracy_and_cost(numbers: pd.DataFrame, column: str, label: str) -> Figure:
    """Plot one point per run, with the cost in `column` along x."""
    return plot_methods(
        numbers,
        partial(_run_points, column=column),
        xlabel=label,
        ylabel="mean IoU %",
        xlim=(0, None),
    )


def _run_points(axis: Axes, rows: pd.DataFrame, style: MethodStyle, column: str) -> None:
    axis.scatter(
        rows[column],
        rows["iou"],
        color=style.color,
        marker=style.marker,
        s=32,
        label=style.method,
    )
