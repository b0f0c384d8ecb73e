"""Scores as tables: mean and spread over subjects."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from rich.console import Console

from segpl.foundation.errors import UserError
from segpl.reporting.render import print_table
from segpl.reporting.table import Better, Column, Format, Row, Spread, Table, Value, text_column
from segpl.reporting.words import plural, verb
from segpl.rundir import read_table


class Metric(NamedTuple):
    """How a metric is shown, and which of its values are good."""

    title: str
    factor: float
    digits: int
    better: Better

    @property
    def column(self) -> Column:
        """The column of a table that shows the metric."""
        return Column(self.title, Format(f".{self.digits}f", self.factor), better=self.better)


METRICS = {
    "iou": Metric("IoU %", 100, 1, Better.HIGHER),
    "mean_iou": Metric("mean IoU with background %", 100, 1, Better.HIGHER),
    "dice": Metric("Dice %", 100, 1, Better.HIGHER),
    "surface_dice": Metric("surface Dice %", 100, 1, Better.HIGHER),
    "hd95": Metric("HD95 mm", 1, 1, Better.LOWER),
    "volume_error": Metric("volume error ml", 1, 2, Better.LOWER),
    "brier": Metric("Brier", 1, 4, Better.LOWER),
    "ece": Metric("ECE %", 100, 2, Better.LOWER),
    "nll": Metric("NLL", 1, 4, Better.LOWER),
    "aurc": Metric("AURC %", 100, 3, Better.LOWER),
}
"""In the order in which they are shown; the first is the headline."""
KEYS = ["run", "method", "shift", "level", "metric", "region"]
UNDEFINED = "undefined"


def metric_column(metric: str, title: str | None = None, ranked: bool = True) -> Column:
    """The column of a metric, under its own or another title; not `ranked`, its best are not marked."""
    column = METRICS[metric].column
    if title is not None:
        column = replace(column, title=title)
    return column if ranked else replace(column, better=None)


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
    without_region = [key for key in (*KEYS, "subject") if key != "region"]
    mean_region = subjects.groupby(without_region, sort=False).mean()
    mean_region = (
        mean_region.reset_index().assign(region="mean").set_index([*KEYS, "subject"])["value"]
    )
    table = pd.concat([subjects, mean_region])
    return table.groupby(KEYS, sort=False).agg(["mean", "std", "count"]).reset_index()


def print_summary(scores: pd.DataFrame) -> None:
    """The summary on the terminal: IoU by region for every shift, then the other scores of the clean images."""
    rows = summary(scores)
    headline = rows[rows["metric"] == "iou"]
    if len(headline):
        print_table(_by_region(headline, list(scores["region"].unique())))
    clean = rows[
        (rows["shift"] == "clean") & (rows["region"] == "mean") & rows["metric"].isin(METRICS)
    ]
    print_table(_by_metric(clean[clean["metric"] != "iou"]))
    overlaps = scores.loc[(scores["metric"] == "iou") & (scores["shift"] == "clean"), "value"]
    undefined = int(overlaps.isna().sum())
    if undefined:
        are = verb(undefined, "is", "are")
        Console(soft_wrap=True).print(
            f"{undefined} of {plural(len(overlaps), 'overlap')} {are} undefined (truth and mask empty): left out."
        )


def _by_region(rows: pd.DataFrame, regions: list[str]) -> Table:
    """The IoU of every run and shift, a column for each region."""
    if len(regions) > 1:
        regions = [*regions, "mean"]
    is_shifted = bool((rows["shift"] != "clean").any())
    columns = [text_column("run"), text_column("method")]
    if is_shifted:
        columns.append(text_column("shift"))
    columns += [metric_column("iou", title=region) for region in regions]
    shown: list[Row] = []
    for (run, method, shift, level), group in rows.groupby(
        ["run", "method", "shift", "level"], sort=False
    ):
        names = [str(run), str(method)]
        if is_shifted:
            names.append(f"{shift} {level:g}")
        shown.append(
            [*names, *(mean_and_deviation(group[group["region"] == region]) for region in regions)]
        )
    subjects = plural(int(rows["count"].max()), "test subject")
    return Table(
        f"Foreground IoU in %: mean ± standard deviation over {subjects}", columns, [shown]
    )


def _by_metric(rows: pd.DataFrame) -> Table:
    """A row for each metric and a column for each run."""
    runs = list(rows["run"].unique())
    columns = [text_column(""), *(Column(str(run)) for run in runs)]
    shown: list[Row] = []
    for name, metric in METRICS.items():
        group = rows[rows["metric"] == name]
        if len(group):
            cells = [mean_and_deviation(group[group["run"] == run]) for run in runs]
            shown.append([metric.title, *(metric.column.format.text(cell) for cell in cells)])
    title = "Other scores: mean over regions, then mean ± standard deviation over subjects"
    return Table(title, columns, [shown])


def mean_and_deviation(rows: pd.DataFrame) -> Value:
    """The mean of the one row there is, and its spread where there is one."""
    if rows.empty:
        return UNDEFINED
    return Spread(rows["mean"].item(), rows["std"].item())
