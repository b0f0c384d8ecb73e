"""Scored runs side by side: the verdict in words, and what it rests on."""

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from segpl.foundation.errors import UserError
from segpl.reporting.label_use import label_use
from segpl.reporting.material import RunFolder, gather, runs_in
from segpl.reporting.statistics import by_size, holm, mann_whitney, per_subject
from segpl.reporting.tables import METRICS
from segpl.reporting.verdict import Verdict, pairs, verdicts
from segpl.rundir import scored_as

OWN_DATA = re.compile(r"prediction_cost(-\d+-samples)?\.json")
"""Not what was scored on the test cases of another folder."""
UNCERTAINTY = ("brier", "ece", "nll", "aurc")


def print_comparison(folders: Sequence[Path], baseline: str) -> None:
    """The verdict on every method, the tests behind it, the sizes it holds for, and how sure each method is."""
    material = gather(folders)
    for folder in folders:
        if all(scored_as(run.folder) is None for run in runs_in(folder)):
            raise UserError(f"{folder} holds no scores.csv: make it with segpl evaluate {folder}.")
    console = Console(soft_wrap=True)
    found = verdicts(material.scores, baseline, labels_alone=material.labels_alone)
    for one in found:
        console.print(one.sentence, highlight=False)
    for warning in material.unlike:
        console.print(warning, highlight=False)
    for sentence in label_use(material.runs):
        console.print(sentence, highlight=False)
    console.print(f"\nAgainst {baseline}, in IoU points, paired by seed and test subject")
    Console().print(_tests(found, material.images))
    console.print("IoU in % by size of the foreground (per cent of the image, images as in the paper)")
    Console().print(_sizes(material.images))
    if len(rows := certainty(material.runs)):  # none where scores were copied without what predicting cost
        console.print("How far the probabilities can be believed (lower is better), and what they cost")
        Console().print(_certainty(rows))


def _tests(found: Sequence[Verdict], images: pd.DataFrame) -> Table:
    table = _table("effect", "95 % interval", "p (Holm)", "bootstrap", "Wilcoxon", "images*")
    wilcoxon = holm([one.comparison.wilcoxon for one in found])
    for one, signed_rank in zip(found, wilcoxon, strict=True):
        it = one.comparison
        both = pairs(images[images["budget"] == it.budget], it.method, it.baseline)
        bootstrap = "{:.1f} to {:.1f}".format(*it.bootstrap)
        cells = f"{it.effect:+.1f}", f"{it.low:.1f} to {it.high:.1f}", f"{one.p:.2g}", bootstrap, f"{signed_rank:.2g}"
        table.add_row(it.method, str(it.budget), *cells, f"{mann_whitney(both['method'], both['baseline']):.2g}")
    table.caption = "* Mann-Whitney over images as in the paper: slices of a scan are alike, so it proves nothing."
    return table


def _sizes(images: pd.DataFrame) -> Table:
    sizes = by_size(images, by=("method", "budget"))
    names = [str(size) for size in sizes["size"].cat.categories if size in set(sizes["size"])]
    table = _table(*names)
    for (method, budget), group in sizes.groupby(["method", "budget"], sort=False):
        means = group.set_index("size")["mean"]
        table.add_row(
            str(method), str(budget), *(f"{100 * means[name]:.1f}" if name in means else "" for name in names)
        )
    return table


def certainty(runs: Sequence[RunFolder]) -> pd.DataFrame:
    """Calibration and error detection of each run, with the cost of training and of predicting, samples counted.

    A run that was also scored with several samples has a row for each number of them.
    """
    rows = []
    for run in runs:
        cost = run.read("cost.json")  # a run that was killed after its last step has none
        for file in sorted(file.name for file in run.folder.iterdir() if OWN_DATA.fullmatch(file.name)):
            predicting = run.read(file)
            scores = run.table(file.replace("prediction_cost", "scores").replace(".json", ".csv"))
            if scores.empty:  # an evaluation that was stopped, or wrote its scores elsewhere
                continue
            clean = scores[scores["shift"] == "clean"]
            means = {name: per_subject(clean, name)["value"].mean() for name in UNCERTAINTY}
            origin = {"run": run.name, "method": run.method, "budget": run.budget, "seed": run.seed}
            spent = {"seconds_of_training": cost.get("seconds_of_training"), "samples": predicting["samples"]}
            rows.append({**origin, **spent, "voxels_per_second": predicting["voxels_per_second"], **means})
    return pd.DataFrame(rows)


def _certainty(rows: pd.DataFrame) -> Table:
    table = _table("samples", *(METRICS[name].title for name in UNCERTAINTY), "training s", "Mvoxel/s")
    for (method, budget, samples), group in rows.groupby(["method", "budget", "samples"], sort=False):
        shown = [f"{METRICS[name].factor * group[name].mean():.{METRICS[name].digits}f}" for name in UNCERTAINTY]
        rate = f"{group['voxels_per_second'].mean() / 1e6:.2g}"
        seconds = pd.to_numeric(group["seconds_of_training"]).mean()
        spent = "–" if pd.isna(seconds) else f"{seconds:.0f}"
        table.add_row(str(method), str(budget), str(samples), *shown, spent, rate)
    return table


def _table(*numbers: str) -> Table:
    """Columns for a method and its labels, whose names are never cut, and for numbers; eighty characters are enough."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, caption_justify="left")
    for title in ("method", "labels"):
        table.add_column(title, no_wrap=True)
    for title in numbers:
        table.add_column(title, justify="right")
    return table
