"""Scored runs side by side: the verdict in words, and what it rests on."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from segpl.foundation.errors import UserError
from segpl.reporting.label_use import label_use
from segpl.reporting.material import RunFolder, gather
from segpl.reporting.render import print_table
from segpl.reporting.statistics import by_size, holm, mann_whitney, per_subject
from segpl.reporting.table import Column, Format, Row, Span, Table, text_column
from segpl.reporting.tables import metric_column
from segpl.reporting.verdict import Verdict, pairs, verdicts
from segpl.reporting.words import listed, verb
from segpl.rundir import COST_FILE

OWN_DATA = re.compile(r"prediction_cost(-\d+-samples)?\.json")
"""Not what was scored on the test cases of another folder."""
UNCERTAINTY = ("brier", "ece", "nll", "aurc")
IMAGES_ARE_ALIKE = (
    "* Mann-Whitney over images as in the paper: slices of a scan are alike, so it proves nothing."
)


def print_comparison(folders: Sequence[Path], baseline: str) -> None:
    """The verdict on every method, the tests behind it, the sizes it holds for, and its calibration."""
    console = Console(soft_wrap=True)
    material = gather(folders)
    unscored = material.unscored
    if len(unscored) == len(material.runs):
        raise UserError(
            f"{_named(unscored)} no scores: make them with segpl evaluate {unscored[0].folder}."
        )
    if unscored:
        console.print(
            f"{_named(unscored)} no scores and {verb(len(unscored), 'is', 'are')} left out.",
            markup=False,
        )
        material = replace(material, runs=[run for run in material.runs if run not in unscored])
    found = verdicts(
        material.scores,
        baseline,
        labels_alone=material.labels_alone,
        of_unknown_use=material.of_unknown_use,
    )
    sentences = [verdict.sentence for verdict in found]
    for sentence in [*sentences, *material.unknown, *material.unlike, *label_use(material.runs)]:
        console.print(sentence, highlight=False, markup=False)
    console.print()
    for table in (
        tests_table(found, material.images, baseline),
        sizes_table(material.images),
        certainty_table(certainty(material.runs)),
    ):
        print_table(table)


def _named(runs: Sequence[RunFolder]) -> str:
    return f"{listed([run.name for run in runs])} {verb(len(runs), 'has', 'have')}"


def tests_table(found: Sequence[Verdict], images: pd.DataFrame, baseline: str) -> Table:
    """What every verdict rests on: the effect with its interval, and four tests."""
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
    corrected = holm([verdict.comparison.wilcoxon for verdict in found])
    rows = []
    for verdict, wilcoxon in zip(found, corrected, strict=True):
        rows.append(_test_row(verdict, float(wilcoxon), images))
    title = f"Against {baseline}, in IoU points, paired by seed and test subject"
    return Table(title, columns, [rows], [IMAGES_ARE_ALIKE])


def _test_row(verdict: Verdict, wilcoxon: float, images: pd.DataFrame) -> Row:
    comparison = verdict.comparison
    return [
        comparison.method,
        str(comparison.budget),
        comparison.effect,
        Span(comparison.low, comparison.high),
        verdict.p,
        Span(*comparison.bootstrap),
        wilcoxon,
        _images_test(
            images[images["budget"] == comparison.budget], comparison.method, comparison.baseline
        ),
    ]


def _images_test(images: pd.DataFrame, method: str, baseline: str) -> float | None:
    """The paper's test over images; none where one of the two methods has no table of images."""
    if not {method, baseline} <= set(images["method"]):
        return None
    both = pairs(images, method, baseline)
    return mann_whitney(both["method"], both["baseline"])


def sizes_table(images: pd.DataFrame) -> Table:
    """The IoU of images by how much of them is foreground."""
    title = "IoU in % by size of the foreground (per cent of the image, images as in the paper)"
    if images.empty:
        return Table(title, _name_columns(), [])
    sizes = by_size(images, by=("method", "budget"))
    names = [str(name) for name in sizes["size"].cat.categories if name in set(sizes["size"])]
    columns = [*_name_columns(), *(metric_column("iou", title=name) for name in names)]
    rows = []
    for (method, budget), group in sizes.groupby(["method", "budget"], sort=False):
        means = group.set_index("size")["mean"].to_dict()
        rows.append([str(method), str(budget), *(means.get(name, "") for name in names)])
    return Table(title, columns, [rows])


def certainty(runs: Sequence[RunFolder]) -> pd.DataFrame:
    """Calibration and error detection of each run, with the cost of training and of predicting, samples counted.

    A run that was also scored with several samples has a row for each number of them.
    """
    rows = []
    for run in runs:
        for file in sorted(file.name for file in run.folder.iterdir()):
            if OWN_DATA.fullmatch(file):
                rows += _certainty_of(run, file)
    return pd.DataFrame(rows)


def _certainty_of(run: RunFolder, file: str) -> list[dict[str, Any]]:
    """One row for the scores that belong to a file of prediction cost, if there are any."""
    scores = run.table(file.replace("prediction_cost", "scores").replace(".json", ".csv"))
    if scores.empty:  # an evaluation that was stopped, or wrote its scores elsewhere
        return []
    predicting = run.read(file)
    clean = scores[scores["shift"] == "clean"]
    row = {
        "run": run.name,
        "method": run.method,
        "budget": run.budget,
        "seed": run.seed,
        # A run that was killed after its last step has no such file.
        "seconds_of_training": run.read(COST_FILE).get("seconds_of_training"),
        "samples": predicting["samples"],
        "voxels_per_second": predicting["voxels_per_second"],
    }
    for metric in UNCERTAINTY:
        row[metric] = per_subject(clean, metric)["value"].mean()
    return [row]


def certainty_table(numbers: pd.DataFrame) -> Table:
    """The same as the mean over the runs of each method and number of samples."""
    columns = [
        *_name_columns(),
        Column("samples"),
        *(metric_column(metric) for metric in UNCERTAINTY),
        Column("training s", Format(".0f")),
        Column("Mvoxel/s", Format(".2g", 1e-6)),
    ]
    rows: list[Row] = []
    if len(numbers):  # there is none where scores were copied without what predicting cost
        for (method, budget, samples), group in numbers.groupby(
            ["method", "budget", "samples"], sort=False
        ):
            scores = [group[metric].mean() for metric in UNCERTAINTY]
            seconds = pd.to_numeric(group["seconds_of_training"]).mean()
            speed = group["voxels_per_second"].mean()
            rows.append([str(method), str(budget), str(samples), *scores, seconds, speed])
    title = "How far the probabilities can be believed (lower is better), and what they cost"
    return Table(title, columns, [rows])


def _name_columns() -> list[Column]:
    return [text_column("method"), text_column("labels")]
