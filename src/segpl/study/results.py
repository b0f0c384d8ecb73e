"""Collects what the runs of a study left in their directories, for the tables."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from segpl.evaluation.shifts import parse_shifts
from segpl.reporting.facts import read_facts
from segpl.reporting.label_use import label_use_by_budget
from segpl.reporting.study_numbers import Layout
from segpl.rundir import COST_FILE, read_plain, read_split, read_table
from segpl.study.jobs import Job, budgets_of, seeds_of
from segpl.study.schema import Paper, Study
from segpl.study.single_run import Evaluation, failure_reason, finished_result


def layout(
    study: Study,
    jobs: Sequence[Job],
    out: Path,
    notes: Sequence[str],
) -> Layout:
    """What the tables show: rows and columns of the requested runs, and how many of them failed."""
    failed = [job for job in jobs if failure_reason(job.directory(out))]
    paper = study.paper or Paper("")
    return Layout(
        title=study.title,
        methods=[entry.label for entry in study.methods],
        budgets=budgets_of(jobs),
        seeds=seeds_of(jobs),
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
        split = read_split(job.directory(out))
        if split is not None:
            splits.append((job.budget, split))
    return label_use_by_budget(splits)


def scores(jobs: Sequence[Job], evaluation: Evaluation, out: Path) -> pd.DataFrame:
    """The scores of all finished runs under the requested shifts, with the labels of the study."""
    table = _finished_tables(jobs, evaluation, out, "scores")
    return table if table.empty else _with_requested_shifts(table, evaluation)


def images(jobs: Sequence[Job], evaluation: Evaluation, out: Path) -> pd.DataFrame:
    """The scores of single images of all finished runs, with the labels of the study."""
    return _finished_tables(jobs, evaluation, out, "images")


def _finished_tables(
    jobs: Sequence[Job], evaluation: Evaluation, out: Path, kind: str
) -> pd.DataFrame:
    """The tables `scores` or `images` of all finished runs; runs without one are left out."""
    tables = []
    for job in jobs:
        directory = job.directory(out)
        result = finished_result(directory, evaluation)
        if result:
            file = directory / result["scores"].replace("scores", kind, 1)
            if file.is_file():
                table = read_table(file)
                tables.append(
                    table.assign(run=job.name, method=job.method, budget=job.budget, seed=job.seed)
                )
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _with_requested_shifts(table: pd.DataFrame, evaluation: Evaluation) -> pd.DataFrame:
    """The rows of these shifts: a run directory may have scores of shifts requested earlier."""
    requested = set()
    for shift in parse_shifts(evaluation.shifts):
        requested.add(_shift_text(shift.name, shift.level))
    is_requested = []
    for name, level in zip(table["shift"], table["level"], strict=True):
        is_requested.append(_shift_text(name, level) in requested)
    return table[is_requested]


def _shift_text(name: str, level: float) -> str:
    return f"{name}={level:g}"


def costs(jobs: Sequence[Job], evaluation: Evaluation, out: Path) -> pd.DataFrame:
    """What each finished run cost; a run that was killed after its last step has no times."""
    rows = []
    for job in jobs:
        directory = job.directory(out)
        file = directory / COST_FILE
        if finished_result(directory, evaluation) and file.is_file():
            cost = read_plain(file)
            seconds = read_facts(directory, job.run.steps).seconds
            rows.append({"method": job.method, **cost, "seconds": seconds})
    return pd.DataFrame(rows)
