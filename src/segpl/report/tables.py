"""Scores as tables: mean and spread over subjects."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table

from segpl.errors import UserError


def read_scores(files: Sequence[Path]) -> pd.DataFrame:
    """The scores of several runs, one below the other."""
    for file in files:
        if not file.is_file():
            raise UserError(f"{file} does not exist: make it with segpl evaluate {file.parent}.")
    return pd.concat([pd.read_csv(file) for file in files], ignore_index=True)


def summary(scores: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over subjects of each metric, in per cent, with the number of subjects behind it.

    The cases of a subject are averaged first. Undefined scores (truth and mask both empty) are left out.
    """
    keys = ["run", "method", "shift", "level", "metric", "region"]
    defined = scores.dropna(subset=["value"])
    subjects = defined.groupby([*keys, "subject"], sort=False)["value"].mean()
    mean_region = subjects.groupby([key for key in (*keys, "subject") if key != "region"], sort=False).mean()
    mean_region = mean_region.reset_index().assign(region="mean").set_index([*keys, "subject"])["value"]
    table = 100 * pd.concat([subjects, mean_region])
    return table.groupby(keys, sort=False).agg(["mean", "std", "count"]).reset_index()


def print_summary(scores: pd.DataFrame) -> None:
    """The summary on the terminal: a row per run and shift, a column per region, IoU above Dice."""
    rows = summary(scores)
    regions = list(scores["region"].unique())
    if len(regions) > 1:
        regions.append("mean")
    for metric, title in (("iou", "Foreground IoU in %"), ("dice", "Dice in %")):
        part = rows[rows["metric"] == metric]
        Console(soft_wrap=True).print(f"{title}: mean ± standard deviation over {part['count'].max()} test subjects")
        table = Table()
        table.add_column("method")
        if (part["shift"] != "clean").any():
            table.add_column("shift")
        for region in regions:
            table.add_column(region, justify="right")
        for (_, method, shift, level), group in part.groupby(["run", "method", "shift", "level"], sort=False):
            cells = [_cell(group[group["region"] == region]) for region in regions]
            table.add_row(
                str(method), *([f"{shift} {level:g}"] if "shift" in [c.header for c in table.columns] else []), *cells
            )
        Console().print(table)


def _cell(row: pd.DataFrame) -> str:
    if row.empty:
        return "undefined"
    mean, std = row["mean"].item(), row["std"].item()
    return f"{mean:.1f}" + ("" if pd.isna(std) else f" ± {std:.1f}")
