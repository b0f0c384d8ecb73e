"""The tables of the page: numbers as people read them, each with what must be known to judge it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from segpl.reporting.label_use import without_validation
from segpl.reporting.material import Material
from segpl.reporting.page.confidence import costs
from segpl.reporting.page.learning import guard_acts
from segpl.reporting.statistics import per_subject
from segpl.reporting.study_numbers import over_seeds
from segpl.reporting.tables import METRICS, Metric
from segpl.reporting.typeset import Cell, Mark, TextTable

SHOWN = ("iou", "dice", "hd95", "ece")
CERTAINTY = {name: METRICS[name] for name in ("brier", "ece", "nll", "aurc")} | {
    "ece_tempered": Metric("ECE % after temperature", 100, 2)
}
MEANING = "Mean over test subjects, regions averaged; ± is the deviation over seeds. Undefined scores are left out."
NOTHING = "–"
CUT, ACTS = 25, 6
"""Rows of a ranking, and acts of the guard, that are shown."""


def headline_table(material: Material) -> list[TextTable]:
    """The few scores that matter most, by budget and method."""
    clean = material.clean[material.clean["metric"].isin(SHOWN)]
    if clean.empty:
        return []
    spread, subjects = over_seeds(clean), per_subject(clean)
    budgets = {run.name: run.budget for run in material.runs}
    lowest = subjects.assign(budget=subjects["run"].map(budgets)).groupby(["budget", "method"])["value"].min()
    frame = lowest.reset_index()
    worst = dict(zip(zip(frame["budget"], frame["method"], strict=True), frame["value"], strict=True))
    shown = {name: METRICS[name] for name in SHOWN if name in set(clean["metric"])}
    groups = _by_cell(material, spread, shown, worst)
    columns = ["labelled", "method", *(metric.title for metric in shown.values()), "worst subject IoU %"]
    return [TextTable("The scores that matter most", [*columns, "seeds", "subjects"], groups, [MEANING])]


def region_table(material: Material) -> list[TextTable]:
    """The IoU region by region."""
    clean = material.clean[material.clean["metric"] == "iou"]
    regions = list(clean["region"].unique())
    if len(regions) < 2:
        return []
    parts = [over_seeds(part.assign(metric=region)) for region, part in clean.groupby("region", sort=False)]
    shown = {region: Metric(f"{region} IoU %", 100, 1) for region in regions}
    groups = _by_cell(material, pd.concat(parts), shown)
    columns = ["labelled", "method", *(metric.title for metric in shown.values()), "seeds", "subjects"]
    return [TextTable("Region by region", columns, groups, [MEANING])]


def certainty_table(material: Material) -> list[TextTable]:
    """Calibration and error detection; runs that were also scored with several samples have a table for each number."""
    tables = []
    for samples, files in sorted(_sampled(material).items()):
        scores = pd.concat(files, ignore_index=True)
        spread = over_seeds(scores[(scores["shift"] == "clean") & scores["metric"].isin(CERTAINTY)])
        shown = {name: metric for name, metric in CERTAINTY.items() if name in set(spread["metric"])}
        if not shown:
            continue
        columns = ["labelled", "method", *(metric.title for metric in shown.values()), "seeds", "subjects"]
        notes = [f"Less is better. {MEANING}", *_calibration_notes(material)]
        title = "How far the probabilities can be believed" + (f", {samples} samples" if samples > 1 else "")
        tables.append(TextTable(title, columns, _by_cell(material, spread, shown), notes))
    return tables


def _calibration_notes(material: Material) -> list[str]:
    """That probabilities are not calibrated, where no temperature could be fitted."""
    runs = without_validation(material.runs)
    if not runs:
        return []
    whose = "These runs"
    if len(runs) < len(material.runs):
        whose = f"{len(runs)} of {len(material.runs)} runs"
    reason = f"{whose} have no validation subjects to fit a temperature on"
    return [f"{reason}: their probabilities are not calibrated."]


def cost_table(material: Material) -> list[TextTable]:
    """What each method cost, the mean over its runs, and how many times the baseline's time."""
    spent = costs(material)
    if spent.empty:
        return []
    numbers = [name for name in spent if pd.api.types.is_numeric_dtype(spent[name])]
    means, counts = spent.groupby("method")[numbers].mean(), spent.groupby("method").size()
    unit = means["seconds"].get(material.baseline or "", float("nan"))
    shown = {"parameters": 1e3, "flops_prediction": 1e9, "flops_labelled": 1e9, "flops_unlabelled": 1e9}
    shown |= {"peak_memory_bytes": 1e9, "voxels_per_second": 1e6}
    rows = []
    for method in material.methods:
        if method in means.index:
            row = means.loc[method].to_dict()
            ratio = _short(row["seconds"] / unit)
            cells = [
                method,
                _short(row["seconds"]),
                ratio,
                *(_short(row.get(key, float("nan")) / by) for key, by in shown.items()),
            ]
            rows.append([Cell(text) for text in [*cells, str(counts[method])]])
    columns = ["method", "training s", f"times {material.baseline or 'a baseline'}", "parameters K"]
    columns += ["prediction GFLOP", "labelled GFLOP", "unlabelled GFLOP", "memory GB", "prediction Mvoxel/s", "runs"]
    notes = [
        "Seconds are the median step times the number of steps, on the machine of the run.",
        "GFLOP are for one patch, forward only: a product and a sum are two operations.",
        "Memory is the most that the process ever held.",
    ]
    return [TextTable("Training and prediction", columns, [rows], notes)]


def guard_words(material: Material) -> str:
    """Whether the guard had to step in."""
    if "pseudo_foreground" not in material.log:
        return ""
    acts = guard_acts(material.log)
    if acts.empty:
        return "The guard never acted: no pseudo-labels went empty or full while the labels were not."
    each = [f"{row.run} from step {row.step} (alpha times {row.alpha_factor:g})" for row in acts.itertuples()]
    more = [f"{len(each) - ACTS} more"] if len(each) > ACTS else []
    return f"The guard backed alpha off, because pseudo-labels had gone empty or full: {'; '.join(each[:ACTS] + more)}."


def study_tables(files: Sequence[Path]) -> list[TextTable]:
    """A study's own tables, from their Markdown."""
    return [_parsed(file.read_text(encoding="utf-8")) for file in files]


def ranking_table(file: Path) -> TextTable:
    """The scans that should be labelled next, most useful first."""
    rows = pd.read_csv(file, dtype=str, keep_default_na=False)
    left = len(rows) - CUT
    notes = [f"{left} more stand in {file.name}."] if left > 0 else []
    cells = [[Cell(str(value)) for value in row] for row in rows.head(CUT).itertuples(index=False)]
    return TextTable("Most useful first", list(rows.columns), [cells], notes)


def _sampled(material: Material) -> dict[int, list[pd.DataFrame]]:
    """Tables of scores by the number of samples behind a prediction."""
    found: dict[int, list[pd.DataFrame]] = {}
    for run in material.runs:
        for file in sorted(run.folder.glob("scores*.csv")):
            named = re.fullmatch(r"scores(?:-(\d+)-samples)?\.csv", file.name)
            if named and len(table := run.table(file.name)):
                found.setdefault(int(named[1] or 1), []).append(table)
    return found


def _by_cell(
    material: Material,
    spread: pd.DataFrame,
    shown: Mapping[str, Metric],
    worst: Mapping[tuple[str, str], float] | None = None,
) -> list[list[list[Cell]]]:
    """A group of rows for each budget, a row for each method, a cell for each metric."""
    groups = []
    for budget in material.budgets:
        rows = []
        for method in material.methods:
            part = spread[(spread["budget"] == budget) & (spread["method"] == method)].set_index("metric")
            if part.empty:
                continue
            row = [Cell(budget), Cell(method), *(_cell(part, name, metric) for name, metric in shown.items())]
            row += [Cell(f"{100 * worst.get((budget, method), float('nan')):.1f}")] if worst is not None else []
            rows.append([*row, Cell(str(part["seeds"].max())), Cell(str(part["subjects"].max()))])
        groups.append(rows)
    return groups


def _cell(part: pd.DataFrame, name: str, metric: Metric) -> Cell:
    row = part.loc[name].to_dict() if name in part.index else {"mean": float("nan")}
    if pd.isna(row["mean"]):
        return Cell(NOTHING)
    mean, spread = (metric.factor * row[key] for key in ("mean", "std"))
    return Cell(f"{mean:.{metric.digits}f}" + ("" if pd.isna(spread) else f" ± {spread:.{metric.digits}f}"))


def _short(value: float) -> str:
    return NOTHING if pd.isna(value) else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _parsed(text: str) -> TextTable:
    lines = text.splitlines()
    title = next((line.removeprefix("## ") for line in lines if line.startswith("## ")), "")
    table = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in lines if line.startswith("|")]
    rows = [[_marked(cell.strip().replace(r"\|", "|")) for cell in row] for row in table]
    notes = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    return TextTable(title, [cell.text for cell in rows[0]] if rows else [], [rows[2:]], notes)


def _marked(text: str) -> Cell:
    bold, italic = (re.fullmatch(pattern, text) for pattern in (r"\*\*(.+)\*\*", r"\*([^*]+)\*"))
    if bold:
        return Cell(bold[1], Mark.BEST)
    return Cell(italic[1], Mark.SECOND) if italic else Cell(text)
