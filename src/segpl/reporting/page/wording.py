"""The tables of the page: numbers as people read them, each with what one must know to judge it."""

import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from segpl.reporting.label_use import without_validation
from segpl.reporting.material import Material, RunFolder
from segpl.reporting.page.confidence import costs
from segpl.reporting.page.standing import Candidate
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
from segpl.reporting.tables import METRICS, Metric
from segpl.reporting.words import verb

SHOWN = ("iou", "dice", "hd95", "ece")
CERTAINTY = {name: METRICS[name] for name in ("brier", "ece", "nll", "aurc")} | {
    "ece_tempered": Metric("ECE % after temperature", 100, 2, Better.LOWER)
}
MEANING = "Mean over test subjects, regions averaged; ± is the standard deviation over seeds. Undefined scores are left out."
CUT = 25
"""Rows of a ranking that are shown."""
ACTS = 6
"""Acts of the guard that are shown."""


def headline_table(material: Material, worst_iou: Mapping[Candidate, float]) -> list[Table]:
    """The few scores that matter most, by budget and method."""
    clean = material.clean[material.clean["metric"].isin(SHOWN)]
    if clean.empty:
        return []
    shown = {name: METRICS[name] for name in SHOWN if name in set(clean["metric"])}
    last = Column("worst subject IoU %", Format(".1f"), better=Better.HIGHER)
    groups = _groups(material, over_seeds(clean), shown, worst_iou)
    columns = _score_columns(shown, last)
    return [Table("The scores that matter most", columns, groups, [MEANING])]


def region_table(material: Material) -> list[Table]:
    """The IoU region by region."""
    clean = material.clean[material.clean["metric"] == "iou"]
    regions = list(clean["region"].unique())
    if len(regions) < 2:
        return []
    parts = []
    for region, part in clean.groupby("region", sort=False):
        parts.append(over_seeds(part.assign(metric=region)))
    shown = {region: METRICS["iou"]._replace(title=f"{region} IoU %") for region in regions}
    groups = _groups(material, pd.concat(parts), shown)
    return [Table("Region by region", _score_columns(shown), groups, [MEANING])]


def certainty_table(material: Material) -> list[Table]:
    """Calibration and error detection, with a table for each number of samples behind a prediction."""
    tables = []
    for samples, files in sorted(_sampled(material).items()):
        scores = pd.concat(files, ignore_index=True)
        clean = scores[(scores["shift"] == "clean") & scores["metric"].isin(CERTAINTY)]
        spread = over_seeds(clean)
        shown = {name: CERTAINTY[name] for name in CERTAINTY if name in set(spread["metric"])}
        if not shown:
            continue
        title = "How far the probabilities can be believed"
        if samples > 1:
            title += f", {samples} samples"
        notes = [f"Lower is better. {MEANING}", *_calibration_notes(material)]
        groups = _groups(material, spread, shown)
        tables.append(Table(title, _score_columns(shown), groups, notes))
    return tables


def _calibration_notes(material: Material) -> list[str]:
    """That probabilities are not calibrated, where no temperature could be fitted."""
    runs = without_validation(material.runs)
    if not runs:
        return []
    whose = verb(len(runs), "This run", "These runs")
    if len(runs) < len(material.runs):
        whose = f"{len(runs)} of {len(material.runs)} runs"
    have = verb(len(runs), "has", "have")
    their = verb(len(runs), "its", "their")
    reason = f"{whose} {have} no validation subjects to fit a temperature on"
    return [f"{reason}: {their} probabilities are not calibrated."]


def _three_digits(title: str, factor: float = 1.0) -> Column:
    """A column of three significant digits; a number that has more before the point is written whole."""
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
    "Seconds are the median step times the number of steps, on the machine of the run.",
    "GFLOP are for one patch, forward only: a product and a sum are two operations.",
    "Memory is the most that the process ever held.",
)


def cost_table(material: Material) -> list[Table]:
    """What each method cost, the mean over its runs, and how many times the baseline's time."""
    spent = costs(material)
    if spent.empty:
        return []
    numbers = [name for name in spent if pd.api.types.is_numeric_dtype(spent[name])]
    means = spent.groupby("method")[numbers].mean()
    counts = spent.groupby("method").size()
    unit = means["seconds"].get(material.baseline or "", float("nan"))
    rows: list[Row] = []
    for method in material.methods:
        if method in means.index:
            mean = means.loc[method].to_dict()
            resources = [mean.get(key) for key in COST_COLUMNS]
            seconds = mean["seconds"]
            rows.append([method, seconds, seconds / unit, *resources, int(counts[method])])
    columns = [
        text_column("method"),
        _three_digits("training s"),
        _three_digits(f"times {material.baseline or 'a baseline'}"),
        *COST_COLUMNS.values(),
        Column("runs"),
    ]
    return [Table("Training and prediction", columns, [rows], COST_NOTES)]


def guard_words(material: Material) -> str:
    """Whether the guard had to step in, in the runs that learnt from unlabelled scans."""
    runs = [run for run in material.runs if run.facts.uses_unlabelled is not False]
    if not runs:
        return ""
    sentences = [_guard_acts_words(runs)]
    switched_off = [run.name for run in runs if run.facts.guard_on is False]
    if switched_off:
        sentences.append(f"The guard was switched off in {', '.join(switched_off)}.")
    unknown = [run.name for run in runs if run.facts.guard_acts is None]
    if unknown:
        sentences.append(
            f"Unknown whether the guard acted in {', '.join(unknown)}: there is no record and no log."
        )
    return " ".join(sentence for sentence in sentences if sentence)


def _guard_acts_words(runs: Sequence[RunFolder]) -> str:
    """Which acts are known; nothing where no run knows."""
    watched = [
        run for run in runs if run.facts.guard_acts is not None and run.facts.guard_on is not False
    ]
    if not watched:
        return ""
    acts = []
    for run in watched:
        for act in run.facts.guard_acts or ():
            acts.append(
                f"{run.name} after step {act.after_step} (alpha times {act.alpha_factor:g})"
            )
    if not acts:
        return (
            "The guard never acted: no pseudo-labels went empty or full while the labels were not."
        )
    shown = acts[:ACTS]
    if len(acts) > ACTS:
        shown.append(f"{len(acts) - ACTS} more")
    return f"The guard backed alpha off, because pseudo-labels had gone empty or full: {'; '.join(shown)}."


def study_tables(files: Sequence[Path]) -> list[Table]:
    """A study's own tables."""
    return [from_json(file.read_text(encoding="utf-8")) for file in files]


def ranking_table(file: Path) -> Table:
    """The scans that should be labelled next, most useful first."""
    rows = pd.read_csv(file, dtype=str, keep_default_na=False)
    left = len(rows) - CUT
    notes = [f"{left} more {verb(left, 'stands', 'stand')} in {file.name}."] if left > 0 else []
    columns = [text_column(str(name), wraps=True) for name in rows.columns]
    cells = [list(row) for row in rows.head(CUT).itertuples(index=False)]
    return Table("Most useful first", columns, [cells], notes)


def _sampled(material: Material) -> dict[int, list[pd.DataFrame]]:
    """Tables of scores by the number of samples behind a prediction."""
    found: dict[int, list[pd.DataFrame]] = {}
    for run in material.runs:
        for file in sorted(run.folder.glob("scores*.csv")):
            named = re.fullmatch(r"scores(?:-(\d+)-samples)?\.csv", file.name)
            if named and len(table := run.table(file.name)):
                found.setdefault(int(named[1] or 1), []).append(table)
    return found


def _score_columns(shown: Mapping[str, Metric], last: Column | None = None) -> list[Column]:
    """Budget and method, the metrics, one more column if there is one, and what is behind a mean."""
    metrics = [metric.column for metric in shown.values()]
    if last is not None:
        metrics.append(last)
    return [
        text_column("labelled"),
        text_column("method"),
        *metrics,
        Column("seeds"),
        Column("subjects"),
    ]


def _groups(
    material: Material,
    spread: pd.DataFrame,
    shown: Mapping[str, Metric],
    last: Mapping[Candidate, float] | None = None,
) -> list[list[Row]]:
    """A group of rows for each budget, a row for each method, a cell for each metric."""
    groups = []
    for budget in material.budgets:
        rows: list[Row] = []
        for method in material.methods:
            part = spread[(spread["budget"] == budget) & (spread["method"] == method)]
            if part.empty:
                continue
            by_metric = part.set_index("metric").to_dict("index")
            cells: list[Value] = [_mean_and_deviation(by_metric, name) for name in shown]
            if last is not None:
                cells.append(last.get((method, budget)))
            seeds = int(part["seeds"].max())
            rows.append([budget, method, *cells, seeds, int(part["subjects"].max())])
        groups.append(rows)
    return groups


def _mean_and_deviation(
    by_metric: Mapping[Hashable, Mapping[Any, Any]], name: str
) -> Spread | None:
    if name not in by_metric:
        return None
    return Spread(by_metric[name]["mean"], by_metric[name]["std"])
