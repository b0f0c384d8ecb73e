"""How sure, and at what price: numbers and figures of calibration, of error detection, and of cost."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from segpl.reporting.material import Material
from segpl.reporting.page.quality import CELL, subjects
from segpl.reporting.page.style import legend, lines, looks, panels
from segpl.rundir import COST_FILE, scoring

BINS = 20
"""Of the reliability curves, as they were counted."""


def reliability(material: Material) -> pd.DataFrame:
    """Mean probability against the frequency of foreground, all voxels of all cases, regions and seeds together."""
    rows = material.curves[material.curves["curve"].isin(("reliability", "reliability_tempered"))]
    if rows.empty:
        return pd.DataFrame()
    place = np.minimum((rows["x"].astype(float) * BINS).astype(int), BINS - 1)
    weighted = rows.assign(bin=place, x=rows["x"] * rows["voxels"], y=rows["y"] * rows["voxels"])
    sums = (
        weighted.groupby([*CELL, "curve", "bin"], sort=True)[["x", "y", "voxels"]]
        .sum()
        .reset_index()
    )
    return sums.assign(x=sums["x"] / sums["voxels"], y=sums["y"] / sums["voxels"])


def draw_reliability(numbers: pd.DataFrame) -> Figure:
    """A line a method; on the diagonal the probabilities mean what they say."""
    figure, parts = panels(numbers)
    styles = looks(numbers["method"])
    for axis, part in parts:
        axis.plot([0, 1], [0, 1], color="#8a8a86", lw=1)
        for (curve, method), line in part.groupby(["curve", "method"], observed=True):
            look, plain = styles[str(method)], curve == "reliability"
            name = method if plain else "thin, dashed: after the temperature"
            color, width = (look.color, 1.6) if plain else (look.color, 0.9)
            axis.plot(
                line["x"],
                line["y"],
                color=color,
                ls="-" if plain else "--",
                lw=width,
                label=name,
                marker=look.marker if plain else None,
                ms=3.5,
            )
        axis.set(xlabel="probability", ylabel="share that is foreground", xlim=(0, 1), ylim=(0, 1))
    return legend(figure)


def risk(material: Material) -> pd.DataFrame:
    """The share of wrong voxels among the surest ones, the mean over cases, regions and seeds, in per cent."""
    rows = material.curves[material.curves["curve"] == "risk-coverage"]
    means = rows.groupby([*CELL, "x"], sort=False)["y"].mean().reset_index()
    return means.assign(x=100 * means["x"], y=100 * means["y"])


def draw_risk(numbers: pd.DataFrame) -> Figure:
    """A line a method: how fast mistakes come in as less sure voxels are counted."""
    figure, parts = panels(numbers)
    for axis, part in parts:
        for method, look, line in lines(part):
            axis.plot(
                line["x"], line["y"], color=look.color, ls=look.linestyle, lw=1.5, label=method
            )
        axis.set(xlabel="surest voxels, % of all", ylabel="wrong among them, %", ylim=(0, None))
    return legend(figure)


def costs(material: Material) -> pd.DataFrame:
    """What each run cost: one row a run, from cost.json and prediction_cost.json."""
    rows = []
    for run in material.runs:
        cost = run.read(COST_FILE)
        if cost:
            predicting = run.read(scoring(run.folder, run.scoring).prediction_cost.name)
            origin = {"run": run.name, "method": run.method, "budget": run.budget}
            times = {
                "seconds": np.nan if run.facts.seconds is None else run.facts.seconds,
                "voxels_per_second": predicting.get("voxels_per_second", np.nan),
            }
            rows.append({**origin, **cost, **times})
    return pd.DataFrame(rows)


def price(material: Material) -> pd.DataFrame:
    """Seconds of training against the mean IoU, run by run."""
    spent, values = costs(material), subjects(material)
    if spent.empty or values.empty:
        return pd.DataFrame()
    means = values.groupby("run", sort=False)["value"].mean().rename("iou").reset_index()
    return spent[["run", *CELL, "seconds"]].merge(means, on="run")


def draw_price(numbers: pd.DataFrame) -> Figure:
    """A point a run: what it found over what it took."""
    figure, parts = panels(numbers)
    for axis, part in parts:
        for method, look, points in lines(part):
            axis.scatter(
                points["seconds"],
                points["iou"],
                color=look.color,
                marker=look.marker,
                s=32,
                label=method,
            )
        axis.set(xlabel="seconds of training", ylabel="mean IoU %", xlim=(0, None))
    return legend(figure)
