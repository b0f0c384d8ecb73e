"""A first example on phantoms: training with and without unlabelled scans, tables and a report."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from segpl.data.cache import Cache
from segpl.data.phantoms import Task, write_phantoms
from segpl.evaluation import evaluate
from segpl.foundation.progress import console
from segpl.methods import BASELINE, DEFAULT
from segpl.methods.segpl import SegPL
from segpl.methods.segpl_vi import SegPLVI
from segpl.reporting.page import write_report
from segpl.reporting.score_summary import print_summary, read_scores
from segpl.reporting.verdict import verdicts
from segpl.rundir import SCORES_FILE
from segpl.settings.planning import plan_run
from segpl.training.loop import train

METHODS = (BASELINE, DEFAULT)
PAPERS_METHODS = (SegPL.name(), SegPLVI.name())
"""Trained as well with `--all`."""
SUBJECTS = 36
"""A third are test subjects. The others train, with labels for some and without for the rest."""
SETTINGS: dict[str, dict[str, Any]] = {
    "tumour": {"labelled": 4, "steps": 800},
    "vessels": {"labelled": 4, "steps": 300},
}
"""The same for every method, so that only the method differs; few steps, to take minutes."""
PICTURES = ("masks.png", "threshold.svg")


def demo(
    task: Task,
    folder: Path,
    seed: int = 0,
    every_method: bool = False,
) -> None:
    """Draw phantoms, train and evaluate the methods, and write a report.

    What an earlier call finished is not repeated.
    """
    started = time.monotonic()
    data = folder / f"data-{task}"
    if not (data / "dataset.json").is_file():
        write_phantoms(task, data, SUBJECTS)
    methods = METHODS + PAPERS_METHODS if every_method else METHODS
    settings = SETTINGS[task] | {"seed": seed}
    runs = []
    for method in methods:
        name = f"{task}-{method}"
        if seed != 0:
            name += f"-{seed}"
        runs.append(_trained(data, method, settings, folder / name))
    _print_scores(runs)
    _write_report(runs, folder / f"{task}-report.html")
    seconds = time.monotonic() - started
    console.print(f"done in {seconds:.0f} s")


def _trained(
    data: Path,
    method: str,
    settings: dict[str, Any],
    directory: Path,
) -> Path:
    """The run directory of a method, trained and evaluated now or by an earlier call."""
    run = plan_run(data, {"method": method, **settings})
    cache = Cache(directory.parent / "cache")
    train(run, directory, resume=True, cache=cache)
    if not (directory / SCORES_FILE).is_file():
        evaluate(directory)
    return directory


def _print_scores(runs: Sequence[Path]) -> None:
    scores = read_scores([run / SCORES_FILE for run in runs])
    print_summary(scores)
    for verdict in verdicts(scores):
        print(verdict.sentence)


def _write_report(runs: Sequence[Path], file: Path) -> None:
    """Write the report, and print its path and those of two of its pictures."""
    page = write_report(runs, file)
    figures = page.with_name(f"{page.stem}-figures")
    for name in PICTURES:
        picture = figures / name
        if picture.is_file():
            print(f"picture: {picture}")
    print(f"report: {page}")
