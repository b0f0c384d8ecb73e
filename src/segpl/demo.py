"""The first thing to run: phantoms, four methods, one table, two pictures and a report."""

import time
from pathlib import Path

from segpl.data.cache import Cache
from segpl.data.phantoms import Task, write_phantoms
from segpl.evaluation import evaluate
from segpl.progress import console
from segpl.report.page import write_report
from segpl.report.tables import print_summary, read_scores
from segpl.report.verdict import verdicts
from segpl.run import plan_run
from segpl.training import train

METHODS = ("supervised", "segpl", "segpl-vi", "segpl-em")
SETTINGS = {
    "tumour": {"labelled": 2, "batch": 2},
    "vessels": {"labelled": 2, "batch": 2, "steps": 200},
}
"""The same for every method, so that only the method differs; the rest is what `segpl train` does by itself."""


def demo(task: Task, folder: Path) -> None:
    """Train, score and draw the four methods; what an earlier call finished is not done again."""
    started = time.monotonic()
    data = folder / f"data-{task}"
    if not (data / "dataset.json").is_file():
        write_phantoms(task, data)
    runs = {method: folder / f"{task}-{method}" for method in METHODS}
    for method, directory in runs.items():
        run = plan_run(data, {"method": method, **SETTINGS[task]})
        train(run, directory, resume=True, cache=Cache(folder / "cache"))
        if not (directory / "scores.csv").is_file():
            evaluate(directory)
    scores = read_scores([run / "scores.csv" for run in runs.values()])
    print_summary(scores)
    for verdict in verdicts(scores):
        print(verdict.sentence)
    page = write_report(list(runs.values()), folder / f"{task}-report.html")
    for picture in ("masks.png", "threshold.svg"):
        print(f"picture: {page.with_name(f'{page.stem}-figures') / picture}")
    print(f"report: {page}")
    console.print(f"done in {time.monotonic() - started:.0f} s")
