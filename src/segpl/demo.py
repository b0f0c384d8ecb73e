"""The first thing to run: phantoms, training with and without the unlabelled ones, a table, pictures and a report."""

import time
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
from segpl.reporting.tables import print_summary, read_scores
from segpl.reporting.verdict import verdicts
from segpl.rundir import SCORES_FILE
from segpl.settings.planning import plan_run
from segpl.training.loop import train

METHODS = (BASELINE, DEFAULT)
PAPERS_METHODS = (SegPL.name(), SegPLVI.name())
"""Trained as well with `--all`."""
SUBJECTS = 36
"""A third of them are for testing; of the others, all but the labelled ones serve without their label."""
SETTINGS: dict[str, dict[str, Any]] = {
    "tumour": {"labelled": 4, "steps": 800},
    "vessels": {"labelled": 4, "steps": 300},
}
"""The same for every method, so that only the method differs. Short, so that the demo takes minutes."""
PICTURES = ("masks.png", "threshold.svg")


def demo(task: Task, folder: Path, seed: int = 0, every_method: bool = False) -> None:
    """Train, score and draw the methods; what an earlier call finished is not done again."""
    started = time.monotonic()
    data = folder / f"data-{task}"
    if not (data / "dataset.json").is_file():
        write_phantoms(task, data, SUBJECTS)
    methods = METHODS + PAPERS_METHODS if every_method else METHODS
    runs = []
    for method in methods:
        name = f"{task}-{method}" if seed == 0 else f"{task}-{method}-{seed}"
        runs.append(_trained(data, method, SETTINGS[task] | {"seed": seed}, folder / name))
    scores = read_scores([run / SCORES_FILE for run in runs])
    print_summary(scores)
    for verdict in verdicts(scores):
        print(verdict.sentence)
    page = write_report(runs, folder / f"{task}-report.html")
    figures = page.with_name(f"{page.stem}-figures")
    for picture in PICTURES:
        if (figures / picture).is_file():
            print(f"picture: {figures / picture}")
    print(f"report: {page}")
    console.print(f"done in {time.monotonic() - started:.0f} s")


def _trained(data: Path, method: str, settings: dict[str, Any], directory: Path) -> Path:
    """The run directory of a method, trained and scored now or before."""
    run = plan_run(data, {"method": method, **settings})
    train(run, directory, resume=True, cache=Cache(directory.parent / "cache"))
    if not (directory / SCORES_FILE).is_file():
        evaluate(directory)
    return directory
