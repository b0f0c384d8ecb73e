"""Scores as tables on the terminal: mean and standard deviation over subjects."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.console import Console

from segpl.foundation.errors import UserError
from segpl.reporting.grammar import plural, verb
from segpl.reporting.metric_columns import METRICS, metric_column
from segpl.reporting.render import print_table
from segpl.reporting.table import Column, Row, Spread, Table, Value, text_column
from segpl.rundir import read_table

KEYS = ["run", "method", "shift", "level", "metric", "region"]
OTHER_METRICS = [name for name in METRICS if name != "iou"]
UNDEFINED = "undefined"
"""What a cell says if no subject has a defined score."""


def read_scores(files: Sequence[Path]) -> pd.DataFrame:
    """The scores of several runs in one table."""
    for file in files:
        if not file.is_file():
            raise UserError(f"{file} does not exist: make it with segpl evaluate {file.parent}.")
    return pd.concat([read_table(file) for file in files], ignore_index=True)


def summary(scores: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over subjects of each metric, and the number of subjects.

    The cases of a subject are averaged first. The region `mean` is the mean over a subject's
    regions. Undefined scores (truth and mask both empty) are left out.
    """
    subject_keys = [*KEYS, "subject"]
    keys_without_region = [key for key in subject_keys if key != "region"]
    defined = scores.dropna(subset=["value"])
    by_region = defined.groupby(subject_keys, sort=False)["value"].mean()
    over_regions = by_region.groupby(keys_without_region, sort=False).mean()
    mean_rows = over_regions.reset_index().assign(region="mean")
    mean_region = mean_rows.set_index(subject_keys)["value"]
    subjects = pd.concat([by_region, mean_region])
    groups = subjects.groupby(KEYS, sort=False)
    return groups.agg(["mean", "std", "count"]).reset_index()


def print_summary(scores: pd.DataFrame) -> None:
    """Print the tables of `summary_tables`, and how many scores are undefined."""
    for table in summary_tables(scores):
        print_table(table)
    _print_undefined(scores)


def summary_tables(scores: pd.DataFrame) -> list[Table]:
    """The IoU by region for every shift, then the other scores of the clean images."""
    rows = summary(scores)
    tables = []
    iou = rows[rows["metric"] == "iou"]
    if len(iou):
        tables.append(_iou_table(iou, list(scores["region"].unique())))
    is_clean_mean = (rows["shift"] == "clean") & (rows["region"] == "mean")
    is_other_metric = rows["metric"].isin(OTHER_METRICS)
    tables.append(_metric_table(rows[is_clean_mean & is_other_metric]))
    return tables


def _print_undefined(scores: pd.DataFrame) -> None:
    """Print how many IoU values of the clean images are undefined, if any are."""
    is_clean_iou = (scores["metric"] == "iou") & (scores["shift"] == "clean")
    values = scores.loc[is_clean_iou, "value"]
    undefined = int(values.isna().sum())
    if undefined:
        values_text = plural(len(values), "IoU value")
        are = verb(undefined, "is", "are")
        Console(soft_wrap=True, markup=False).print(
            f"{undefined} of {values_text} {are} undefined "
            f"(truth and mask are both empty) and {are} left out."
        )


def _iou_table(rows: pd.DataFrame, regions: Sequence[str]) -> Table:
    """The IoU of every run and shift, with a column for each region."""
    shown_regions = list(regions)
    if len(regions) > 1:
        shown_regions.append("mean")
    is_shifted = bool((rows["shift"] != "clean").any())
    columns = [text_column("run"), text_column("method")]
    if is_shifted:
        columns.append(text_column("shift"))
    columns += [metric_column("iou", title=region) for region in shown_regions]
    table_rows: list[Row] = []
    for (run, method, shift, level), group in rows.groupby(
        ["run", "method", "shift", "level"], sort=False
    ):
        cells: list[Value] = [str(run), str(method)]
        if is_shifted:
            cells.append(f"{shift} {level:g}")
        for region in shown_regions:
            cells.append(_mean_and_deviation(group[group["region"] == region]))
        table_rows.append(cells)
    subjects = plural(int(rows["count"].max()), "test subject")
    title = f"Foreground IoU in %: mean ± standard deviation over {subjects}"
    return Table(title, columns, [table_rows])


def _metric_table(rows: pd.DataFrame) -> Table:
    """The mean over regions, with a row for each metric and a column for each run."""
    runs = list(rows["run"].unique())
    columns = [text_column("")]
    columns += [Column(str(run)) for run in runs]
    table_rows: list[Row] = []
    for name, metric in METRICS.items():
        group = rows[rows["metric"] == name]
        if group.empty:
            continue
        # Every metric has its own number of digits, so the cells of a row are written here.
        cells = [metric.title]
        for run in runs:
            value = _mean_and_deviation(group[group["run"] == run])
            cells.append(metric.column.format.text(value))
        table_rows.append(cells)
    title = "Other scores: mean over regions, then mean ± standard deviation over subjects"
    return Table(title, columns, [table_rows])


def _mean_and_deviation(rows: pd.DataFrame) -> Value:
    """Mean and standard deviation from the only row; `UNDEFINED` if there is none."""
    if rows.empty:
        return UNDEFINED
    return Spread(rows["mean"].item(), rows["std"].item())
