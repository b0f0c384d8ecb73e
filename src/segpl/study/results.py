"""What the runs of a study left behind, gathered for the tables."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from segpl.evaluation.shifts import parse_shifts
from segpl.reporting.facts import read_facts
from segpl.reporting.label_use import label_use_by_budget
from segpl.reporting.study_numbers import Layout
from segpl.rundir import COST_FILE, SPLIT_FILE, read_plain, read_table
from segpl.study.jobs import Job
from segpl.study.schema import Paper, Study
from segpl.study.work import Evaluation, failure, result


def layout(study: Study, jobs: Sequence[Job], out: Path, notes: Sequence[str]) -> Layout:
    """What the tables show: the rows and columns of the runs that were wanted, and how many of them failed."""
    failed = [job for job in jobs if failure(out / "runs" / job.name)]
    paper = study.paper or Paper("")
    return Layout(
        title=study.title,
        methods=[entry.label for entry in study.methods],
        budgets=list(dict.fromkeys(job.budget for job in jobs)),
        seeds=list(dict.fromkeys(job.seed for job in jobs)),
        baselines=list(study.baselines),
        failed=Counter((job.budget, job.method) for job in failed),
        paper=paper.source,
        paper_scores=paper.scores,
        paper_cost={method: asdict(cost) for method, cost in paper.cost.items()},
        notes=[*_label_use(jobs, out), *notes],
    )


def _label_use(jobs: Sequence[Job], out: Path) -> list[str]:
    """What the labelled subjects of each budget were used for, as training recorded it."""
    splits = []
    for job in jobs:
        file = out / "runs" / job.name / SPLIT_FILE
        if file.is_file():
            splits.append((job.budget, json.loads(file.read_text(encoding="utf-8"))))
    return label_use_by_budget(splits)


def scores(jobs: Sequence[Job], evaluation: Evaluation, out: Path) -> pd.DataFrame:
    """The scores of all runs that are done, under the names of the study; of shifts, those that it asks for."""
    tables = []
    for job in jobs:
        directory = out / "runs" / job.name
        if done := result(directory, evaluation):
            table = read_table(directory / done["scores"])
            tables.append(
                table.assign(run=job.name, method=job.method, budget=job.budget, seed=job.seed)
            )
    if not tables:
        return pd.DataFrame()
    asked = {f"{shift.name}={shift.level:g}" for shift in parse_shifts(evaluation.shifts)}
    found = pd.concat(tables, ignore_index=True)
    return found[
        [
            f"{name}={level:g}" in asked
            for name, level in zip(found["shift"], found["level"], strict=True)
        ]
    ]


def costs(jobs: Sequence[Job], evaluation: Evaluation, out: Path) -> pd.DataFrame:
    """What each run that is done cost; a run that was killed after its last step did not time it."""
    rows = []
    for job in jobs:
        directory = out / "runs" / job.name
        if result(directory, evaluation) and (directory / COST_FILE).is_file():
            cost = read_plain(directory / COST_FILE)
            seconds = read_facts(directory, job.run.steps).seconds
            rows.append({"method": job.method, **cost, "seconds": seconds})
    return pd.DataFrame(rows)
