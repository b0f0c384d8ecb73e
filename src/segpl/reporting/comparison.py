"""Scored runs side by side on the terminal: the verdict, and the numbers that it is based on."""

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from segpl.foundation.errors import UserError
from segpl.reporting.grammar import listed, verb
from segpl.reporting.image_scores import image_agreement, per_image
from segpl.reporting.label_use import label_use
from segpl.reporting.material import Material, gather
from segpl.reporting.metric_columns import metric_column
from segpl.reporting.render import print_table
from segpl.reporting.run_folder import RunFolder
from segpl.reporting.statistics import by_size, holm, per_subject
from segpl.reporting.table import Column, Format, Row, Span, Table, Value, text_column
from segpl.reporting.verdict import Verdict, verdicts
from segpl.rundir import COST_FILE, ScoringFiles

UNCERTAINTY = ("brier", "ece", "nll", "aurc")
IMAGES_ARE_NOT_INDEPENDENT = (
    "* Mann-Whitney test over images, as in the paper. Slices of one scan are not independent, "
    "so this p-value is no evidence."
)


def print_comparison(folders: Sequence[Path], baseline: str) -> None:
    """Print the verdict on every method, then the tests, the scores by size, and calibration."""
    console = Console(soft_wrap=True, markup=False)
    material, left_out = _scored_material(folders, baseline)
    for sentence in left_out:
        console.print(sentence)
    answers = _verdicts(material, baseline)
    sentences = [answer.sentence for answer in answers]
    for sentence in [*sentences, *_notes(material)]:
        console.print(sentence, highlight=False, markup=False)
    console.print()
    for table in _tables(material, answers, baseline):
        print_table(table)


def comparison_tables(folders: Sequence[Path], baseline: str) -> list[Table]:
    """What the verdicts are based on: the tests, the scores by size, and calibration."""
    material, _ = _scored_material(folders, baseline)
    return _tables(material, _verdicts(material, baseline), baseline)


def _tables(material: Material, answers: Sequence[Verdict], baseline: str) -> list[Table]:
    return [
        tests_table(answers, material.images, baseline),
        sizes_table(material.images),
        uncertainty_table(uncertainty(material.runs)),
    ]


def comparison_record(folders: Sequence[Path], baseline: str) -> dict[str, Any]:
    """The same verdicts as plain data for JSON; an undefined number is None."""
    material, left_out = _scored_material(folders, baseline)
    records = [_verdict_record(answer) for answer in _verdicts(material, baseline)]
    return {"baseline": baseline, "verdicts": records, "notes": [*left_out, *_notes(material)]}


def _verdict_record(answer: Verdict) -> dict[str, Any]:
    record: dict[str, Any] = {"kind": answer.kind.value, "sentence": answer.sentence}
    for name, value in asdict(answer.comparison).items():
        record[name] = _defined(value)
    record["bootstrap"] = [_defined(bound) for bound in answer.comparison.bootstrap]
    record["p_corrected"] = _defined(answer.p)
    return record


def _defined(value: Any) -> Any:
    """None instead of NaN, which JSON does not have."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _verdicts(material: Material, baseline: str) -> list[Verdict]:
    return verdicts(
        material.scores,
        baseline,
        labels_only=material.labels_only,
        unknown_use=material.unknown_use,
    )


def _notes(material: Material) -> list[str]:
    """What a reader must know to judge the verdicts."""
    return [
        *material.unknown_use_notes,
        *material.setting_differences,
        *label_use(material.runs),
    ]


def _scored_material(folders: Sequence[Path], baseline: str) -> tuple[Material, list[str]]:
    """The runs that have scores, and a sentence on those that have none."""
    material = gather(folders).with_baseline(baseline)
    unscored = material.unscored
    if not unscored:
        return material, []
    names = listed([run.name for run in unscored])
    have = verb(len(unscored), "has", "have")
    if len(unscored) == len(material.runs):
        raise UserError(
            f"{names} {have} no scores: make them with segpl evaluate {unscored[0].folder}."
        )
    are = verb(len(unscored), "is", "are")
    scored = [run for run in material.runs if run not in unscored]
    return replace(material, runs=scored), [f"{names} {have} no scores and {are} left out."]


def tests_table(answers: Sequence[Verdict], images: pd.DataFrame, baseline: str) -> Table:
    """What every verdict is based on: the difference with its interval, and four tests."""
    points = Format(".1f")
    p_value = Format(".2g")
    columns = [
        *_name_columns(),
        Column("effect", Format("+.1f")),
        Column("95 % interval", points),
        Column("p (Holm)", p_value),
        Column("bootstrap", points),
        Column("Wilcoxon", p_value),
        Column("images*", p_value),
    ]
    corrected = holm([answer.comparison.wilcoxon for answer in answers])
    rows = []
    for answer, wilcoxon in zip(answers, corrected, strict=True):
        rows.append(_tests_row(answer, float(wilcoxon), images))
    title = f"Difference from {baseline} in IoU points, paired by seed and test subject"
    return Table(title, columns, [rows], [IMAGES_ARE_NOT_INDEPENDENT])


def _tests_row(answer: Verdict, wilcoxon: float, images: pd.DataFrame) -> Row:
    comparison = answer.comparison
    images_of_budget = images[images["budget"] == comparison.budget]
    return [
        comparison.method,
        str(comparison.budget),
        comparison.effect,
        Span(comparison.low, comparison.high),
        answer.p,
        Span(*comparison.bootstrap),
        wilcoxon,
        _images_test(images_of_budget, comparison.method, comparison.baseline),
    ]


def _images_test(images: pd.DataFrame, method: str, baseline: str) -> float | None:
    """The p-value of the paper's test over images; None if a method has no table of images."""
    if not {method, baseline} <= set(images["method"]):
        return None
    return image_agreement(per_image(images), method, baseline).mann_whitney


def sizes_table(images: pd.DataFrame) -> Table:
    """The IoU of images by the share of the image that is foreground."""
    title = "IoU in % by size of the foreground (in % of the image; images as in the paper)"
    if images.empty:
        return Table(title, _name_columns(), [])
    sizes = by_size(images, by=("method", "budget"))
    occurring = set(sizes["size"])
    names = [str(name) for name in sizes["size"].cat.categories if name in occurring]
    columns = _name_columns()
    columns += [metric_column("iou", title=name) for name in names]
    rows = []
    for (method, budget), group in sizes.groupby(["method", "budget"], sort=False):
        mean_by_size = group.set_index("size")["mean"].to_dict()
        cells = [mean_by_size.get(name, "") for name in names]
        rows.append([str(method), str(budget), *cells])
    return Table(title, columns, [rows])


def uncertainty(runs: Sequence[RunFolder]) -> pd.DataFrame:
    """Calibration and error detection of each run, with the cost of training and prediction.

    A run that was scored with several numbers of samples has a row for each of them.
    """
    rows = []
    for run in runs:
        for scoring in run.scorings_on_own_data():
            scores = run.table(scoring.scores.name)
            # There are no scores if the evaluation was stopped or wrote its scores elsewhere.
            if len(scores):
                rows.append(_uncertainty_row(run, scoring, scores))
    return pd.DataFrame(rows)


def _uncertainty_row(run: RunFolder, scoring: ScoringFiles, scores: pd.DataFrame) -> dict[str, Any]:
    training_cost = run.read(COST_FILE)
    prediction_cost = run.read(scoring.prediction_cost.name)
    row = {
        "run": run.name,
        "method": run.method,
        "budget": run.budget,
        "seed": run.seed,
        # Missing if the run was killed after its last step.
        "seconds_of_training": training_cost.get("seconds_of_training"),
        "samples": prediction_cost["samples"],
        "voxels_per_second": prediction_cost["voxels_per_second"],
    }
    clean = scores[scores["shift"] == "clean"]
    for metric in UNCERTAINTY:
        row[metric] = per_subject(clean, metric)["value"].mean()
    return row


def uncertainty_table(numbers: pd.DataFrame) -> Table:
    """The numbers of `uncertainty` as means over the runs of each method and number of samples."""
    columns = [
        *_name_columns(),
        Column("samples"),
        *(metric_column(metric) for metric in UNCERTAINTY),
        Column("training s", Format(".0f")),
        Column("Mvoxel/s", Format(".2g", 1e-6)),
    ]
    title = "Calibration (lower is better) and cost"
    if numbers.empty:  # the scores were copied without the cost of prediction
        return Table(title, columns, [])
    rows = []
    for (method, budget, samples), group in numbers.groupby(
        ["method", "budget", "samples"], sort=False
    ):
        cells: list[Value] = [str(method), str(budget), str(samples)]
        cells += [group[metric].mean() for metric in UNCERTAINTY]
        cells.append(pd.to_numeric(group["seconds_of_training"]).mean())
        cells.append(group["voxels_per_second"].mean())
        rows.append(cells)
    return Table(title, columns, [rows])


def _name_columns() -> list[Column]:
    return [text_column("method"), text_column("labels")]
