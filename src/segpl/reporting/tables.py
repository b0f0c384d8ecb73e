"""Scores as tables: mean and spread over subjects."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from rich.console import Console
from rich.table import Table

from segpl.foundation.errors import UserError
from segpl.rundir import read_table


class Metric(NamedTuple):
    """How a metric is shown."""

    title: str
    factor: float
    digits: int


METRICS = {
    "iou": Metric("IoU %", 100, 1),
    "mean_iou": Metric("mean IoU with background %", 100, 1),
    "dice": Metric("Dice %", 100, 1),
    "surface_dice": Metric("surface Dice %", 100, 1),
    "hd95": Metric("HD95 mm", 1, 1),
    "volume_error": Metric("volume error ml", 1, 2),
    "brier": Metric("Brier", 1, 4),
    "ece": Metric("ECE %", 100, 2),
    "nll": Metric("NLL", 1, 4),
    "aurc": Metric("AURC %", 100, 3),
}
"""In the order in which they are shown; the first is the headline."""
KEYS = ["run", "method", "shift", "level", "metric", "region"]


def read_scores(files: Sequence[Path]) -> pd.DataFrame:
    """The scores of several runs, one below the other."""
    for file in files:
        if not file.is_file():
            raise UserError(f"{file} does not exist: make it with segpl evaluate {file.parent}.")
    return pd.concat([read_table(file) for file in files], ignore_index=True)


def summary(scores: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over subjects of each metric, with the number of subjects behind it.

    The cases of a subject are averaged first. Undefined scores (truth and mask both empty) are left out.
    """
    defined = scores.dropna(subset=["value"])
    subjects = defined.groupby([*KEYS, "subject"], sort=False)["value"].mean()
    mean_region = subjects.groupby([key for key in (*KEYS, "subject") if key != "region"], sort=False).mean()
    mean_region = mean_region.reset_index().assign(region="mean").set_index([*KEYS, "subject"])["value"]
    table = pd.concat([subjects, mean_region])
    return table.groupby(KEYS, sort=False).agg(["mean", "std", "count"]).reset_index()


def print_summary(scores: pd.DataFrame) -> None:
    """The summary on the terminal: IoU by region for every shift, then the other scores of the clean images."""
    rows, console = summary(scores), Console(soft_wrap=True)
    headline = rows[rows["metric"] == "iou"]
    console.print(f"Foreground IoU in %: mean ± standard deviation over {headline['count'].max()} test subjects")
    Console().print(_by_region(headline, list(scores["region"].unique())))
    clean = rows[(rows["shift"] == "clean") & (rows["region"] == "mean") & rows["metric"].isin(METRICS)]
    console.print("Other scores: mean over regions, then mean ± standard deviation over subjects")
    Console().print(_by_metric(clean[clean["metric"] != "iou"]))
    undefined = scores.loc[(scores["metric"] == "iou") & (scores["shift"] == "clean"), "value"].isna()
    if undefined.any():
        console.print(f"{undefined.sum()} of {len(undefined)} overlaps are undefined (truth and mask empty): left out.")


def _by_region(rows: pd.DataFrame, regions: list[str]) -> Table:
    if len(regions) > 1:
        regions.append("mean")
    shifted = (rows["shift"] != "clean").any()
    table = Table("run", "method", *(["shift"] if shifted else []))
    for region in regions:
        table.add_column(region, justify="right")
    for (run, method, shift, level), group in rows.groupby(["run", "method", "shift", "level"], sort=False):
        cells = [cell(group[group["region"] == region], METRICS["iou"]) for region in regions]
        table.add_row(str(run), str(method), *([f"{shift} {level:g}"] if shifted else []), *cells)
    return table


def _by_metric(rows: pd.DataFrame) -> Table:
    table = Table("")
    for run in rows["run"].unique():
        table.add_column(str(run), justify="right")
    for name, metric in METRICS.items():
        group = rows[rows["metric"] == name]
        if len(group):
            table.add_row(metric.title, *(cell(row, metric) for _, row in group.groupby("run", sort=False)))
    return table


def cell(row: pd.DataFrame, metric: Metric) -> str:
    """A mean, and its spread where there is one, as it stands in a table."""
    if row.empty:
        return "undefined"
    mean, std = (metric.factor * row[part].item() for part in ("mean", "std"))
    return f"{mean:.{metric.digits}f}" + ("" if pd.isna(std) else f" ± {std:.{metric.digits}f}")
