"""The tables of the page, each with the notes that a reader needs to judge its numbers."""

import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from segpl.reporting.grammar import verb
from segpl.reporting.label_use import without_validation
from segpl.reporting.material import Material
from segpl.reporting.metric_columns import METRICS, Metric
from segpl.reporting.page.best_and_worst import Candidate
from segpl.reporting.page.cost import run_costs
from segpl.reporting.study_numbers import over_seeds
from segpl.reporting.table import (
    Better,
    Column,
    Format,
    Row,
    Spread,
    Table,
    Value,
    from_json,
    text_column,
)
from segpl.rundir import read_text_table

MAIN_METRICS = {
    "iou": METRICS["iou"],
    "dice": METRICS["dice"],
    "hd95": METRICS["hd95"],
    "ece": METRICS["ece"],
}
CALIBRATION_METRICS = {
    "brier": METRICS["brier"],
    "ece": METRICS["ece"],
    "nll": METRICS["nll"],
    "aurc": METRICS["aurc"],
    "ece_tempered": Metric("ECE % after temperature scaling", 100, 2, Better.LOWER),
}
SPREAD_NOTE = "± is the standard deviation over seeds. Undefined scores are left out."
MEAN_NOTE = f"Scores are averaged over regions, then over test subjects; {SPREAD_NOTE}"
REGION_NOTE = f"Scores are averaged over test subjects; {SPREAD_NOTE}"
CALIBRATION_NOTE = "Lower is better."
MAX_RANKED = 25
"""Rows of a ranking that the page shows."""
SCORES_FILE_NAME = re.compile(r"scores(?:-(\d+)-samples)?\.csv")


def main_table(material: Material, worst_iou: Mapping[Candidate, float]) -> list[Table]:
    """The most important scores by budget and method; no table without scores."""
    rows = material.clean[material.clean["metric"].isin(MAIN_METRICS)]
    if rows.empty:
        return []
    metrics = _present_metrics(MAIN_METRICS, rows)
    worst_column = Column("worst subject IoU %", Format(".1f"), better=Better.HIGHER)
    columns = _score_columns(metrics, worst_column)
    groups = _score_groups(material, over_seeds(rows), metrics, worst_iou)
    return [Table("Main scores", columns, groups, [MEAN_NOTE])]


def region_table(material: Material) -> list[Table]:
    """The IoU of each region; no table for a single region."""
    rows = material.clean[material.clean["metric"] == "iou"]
    regions = list(rows["region"].unique())
    if len(regions) < 2:
        return []
    spreads = []
    for region, region_rows in rows.groupby("region", sort=False):
        spreads.append(over_seeds(region_rows.assign(metric=region)))
    iou = METRICS["iou"]
    metrics = {region: iou._replace(title=f"{region} IoU %") for region in regions}
    groups = _score_groups(material, pd.concat(spreads), metrics)
    return [Table("IoU by region", _score_columns(metrics), groups, [REGION_NOTE])]


def calibration_tables(material: Material) -> list[Table]:
    """Calibration and error detection: one table for each number of samples per prediction."""
    notes = [CALIBRATION_NOTE, MEAN_NOTE, *_uncalibrated_notes(material)]
    scores_by_samples = _scores_by_samples(material)
    tables = []
    for samples in sorted(scores_by_samples):
        scores = pd.concat(scores_by_samples[samples], ignore_index=True)
        is_shown = (scores["shift"] == "clean") & scores["metric"].isin(CALIBRATION_METRICS)
        spread = over_seeds(scores[is_shown])
        metrics = _present_metrics(CALIBRATION_METRICS, spread)
        if metrics:
            title = "Calibration" if samples == 1 else f"Calibration, {samples} samples"
            groups = _score_groups(material, spread, metrics)
            tables.append(Table(title, _score_columns(metrics), groups, notes))
    return tables


def _scores_by_samples(material: Material) -> dict[int, list[pd.DataFrame]]:
    """The tables of scores of all runs, by the number of samples per prediction."""
    tables: dict[int, list[pd.DataFrame]] = {}
    for run in material.runs:
        for file in sorted(run.folder.glob("scores*.csv")):
            name = SCORES_FILE_NAME.fullmatch(file.name)
            if name is None:
                continue
            scores = run.table(file.name)
            if len(scores):
                samples = int(name[1] or 1)
                tables.setdefault(samples, []).append(scores)
    return tables


def _uncalibrated_notes(material: Material) -> list[str]:
    """A sentence on the runs whose temperature could not be fitted."""
    uncalibrated = len(without_validation(material.runs))
    if not uncalibrated:
        return []
    runs = verb(uncalibrated, "This run", "These runs")
    if uncalibrated < len(material.runs):
        runs = f"{uncalibrated} of {len(material.runs)} runs"
    have = verb(uncalibrated, "has", "have")
    their = verb(uncalibrated, "its", "their")
    return [
        f"{runs} {have} no validation subjects to fit a temperature on: {their} probabilities "
        "are not calibrated."
    ]


def _three_digits(title: str, factor: float = 1.0) -> Column:
    """A column with three significant digits; numbers from 1000 on are written in full."""
    return Column(title, Format(".3g", factor, whole_from=1000))


COST_COLUMNS = {
    "parameters": _three_digits("parameters K", 1e-3),
    "flops_prediction": _three_digits("prediction GFLOP", 1e-9),
    "flops_labelled": _three_digits("labelled GFLOP", 1e-9),
    "flops_unlabelled": _three_digits("unlabelled GFLOP", 1e-9),
    "peak_memory_bytes": _three_digits("memory GB", 1e-9),
    "voxels_per_second": _three_digits("prediction Mvoxel/s", 1e-6),
}
COST_NOTES = (
    "Training time is the median time per step multiplied by the number of steps, on the machine "
    "of the run. × is the time relative to the baseline.",
    "GFLOP are for the forward pass of one patch: in prediction, and in training with and without "
    "a label. A multiplication and an addition count as two operations.",
    "Memory is the peak memory of the process.",
)


def cost_table(material: Material) -> list[Table]:
    """The cost of each method, averaged over its runs; no table if no run recorded its cost."""
    costs = run_costs(material)
    if costs.empty:
        return []
    numeric = [name for name in costs if pd.api.types.is_numeric_dtype(costs[name])]
    means = costs.groupby("method")[numeric].mean()
    run_counts = costs.groupby("method").size()
    baseline_seconds = means["seconds"].get(material.baseline or "", float("nan"))
    rows: list[Row] = []
    for method in material.methods:
        if method in means.index:
            mean = means.loc[method].to_dict()
            times = [mean["seconds"], mean["seconds"] / baseline_seconds]
            resources = [mean.get(key) for key in COST_COLUMNS]
            rows.append([method, *times, *resources, int(run_counts[method])])
    columns = [
        text_column("method"),
        _three_digits("training s"),
        _three_digits(f"× {material.baseline or 'baseline'}"),
        *COST_COLUMNS.values(),
        Column("runs"),
    ]
    return [Table("Cost of training and prediction", columns, [rows], COST_NOTES)]


def study_tables(files: Sequence[Path]) -> list[Table]:
    """The tables that a study wrote."""
    return [from_json(file.read_text(encoding="utf-8")) for file in files]


def ranking_table(file: Path) -> Table:
    """The scans that should be labelled next, most useful first."""
    ranking = read_text_table(file)
    columns = [text_column(str(name), wraps=True) for name in ranking.columns]
    rows = [list(row) for row in ranking.head(MAX_RANKED).itertuples(index=False)]
    notes = []
    left_out = len(ranking) - MAX_RANKED
    if left_out > 0:
        are = verb(left_out, "is", "are")
        notes.append(f"{left_out} more {are} listed in {file.name}.")
    return Table("Most useful scans first", columns, [rows], notes)


def _present_metrics(metrics: Mapping[str, Metric], scores: pd.DataFrame) -> dict[str, Metric]:
    """Those of `metrics` that occur in the column `metric`."""
    present = set(scores["metric"])
    return {name: metric for name, metric in metrics.items() if name in present}


def _score_columns(metrics: Mapping[str, Metric], extra: Column | None = None) -> list[Column]:
    """Budget, method, the metrics, possibly an extra column, and the numbers behind a mean."""
    columns = [text_column("labelled"), text_column("method")]
    columns += [metric.column for metric in metrics.values()]
    if extra is not None:
        columns.append(extra)
    columns += [Column("seeds"), Column("subjects")]
    return columns


def _score_groups(
    material: Material,
    spread: pd.DataFrame,
    metrics: Mapping[str, Metric],
    extra: Mapping[Candidate, float] | None = None,
) -> list[list[Row]]:
    """A group of rows for each budget, with a row for each method."""
    groups = []
    for budget in material.budgets:
        rows: list[Row] = []
        for method in material.methods:
            is_cell = (spread["budget"] == budget) & (spread["method"] == method)
            cell = spread[is_cell]
            if cell.empty:
                continue
            values = _means_and_deviations(cell, metrics)
            if extra is not None:
                values.append(extra.get((method, budget)))
            seeds = int(cell["seeds"].max())
            subjects = int(cell["subjects"].max())
            rows.append([budget, method, *values, seeds, subjects])
        groups.append(rows)
    return groups


def _means_and_deviations(cell: pd.DataFrame, metrics: Mapping[str, Metric]) -> list[Value]:
    """Mean and standard deviation of each metric; None for a metric without scores."""
    by_metric: Mapping[Hashable, Mapping[Any, Any]] = cell.set_index("metric").to_dict("index")
    values: list[Value] = []
    for name in metrics:
        if name in by_metric:
            scores = by_metric[name]
            values.append(Spread(scores["mean"], scores["std"]))
        else:
            values.append(None)
    return values
