"""The numbers of a study's tables: mean and spread over seeds, tests against the best baseline, cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from segpl.foundation.errors import UserError
from segpl.reporting.statistics import mean_of_regions
from segpl.reporting.verdict import compare

HEADLINE, WITH_BACKGROUND = "iou", "mean_iou"
CERTAINTY = ("brier", "ece", "aurc", "nll")
"""Of all of them less is better."""
CELL, CURVE = ["budget", "method"], ["budget", "method", "shift", "level", "metric"]
COST = ["seconds", "flops_prediction", "flops_labelled", "flops_unlabelled", "parameters"]


@dataclass(frozen=True)
class Layout:
    """What a study wanted to know: the rows of its tables, whether or not their runs succeeded."""

    title: str
    methods: list[str]
    budgets: list[str]
    seeds: list[int]
    baselines: list[str]
    """The methods that the others are tested against."""
    failed: Mapping[tuple[str, str], int]
    """Runs that failed, by budget and method."""
    paper: str = ""
    """Where in the paper its figures are."""
    paper_scores: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    """Its mean and deviation in per cent, by budget and method."""
    paper_cost: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Its seconds, gigaflops and parameters, by method."""
    notes: Sequence[str] = ()
    """What else must be said below the tables."""


def over_seeds(scores: pd.DataFrame) -> pd.DataFrame:
    """Mean, deviation and range over seeds of the mean over subjects; how many of both are behind it."""
    subjects = (
        mean_of_regions(scores, [*CURVE, "seed", "subject"]).reset_index().dropna(subset="value")
    )
    runs = subjects.groupby([*CURVE, "seed"], sort=False)["value"].mean()
    spread = runs.groupby(CURVE, sort=False).agg(["mean", "std", "min", "max", "count"])
    different = subjects.groupby(CURVE, sort=False)["subject"].nunique()
    return spread.rename(columns={"count": "seeds"}).assign(subjects=different).reset_index()


def cells(spread: pd.DataFrame, layout: Layout, metrics: Sequence[str]) -> pd.DataFrame:
    """A row for every budget and method, with mean and deviation of these metrics on the clean images."""
    rows = _every(layout)
    clean = spread[spread["shift"] == "clean"]
    for metric in metrics:
        part = clean.loc[clean["metric"] == metric, [*CELL, "mean", "std"]]
        rows = rows.merge(
            part.rename(columns={"mean": f"{metric}_mean", "std": f"{metric}_std"}), "left", on=CELL
        )
    counts = clean.loc[clean["metric"] == metrics[0], [*CELL, "seeds", "subjects"]]
    rows = rows.merge(counts, "left", on=CELL).fillna({"seeds": 0, "subjects": 0})
    failed = [
        layout.failed.get((budget, method), 0)
        for budget, method in zip(*map(rows.get, CELL), strict=True)
    ]
    return rows.astype({"seeds": int, "subjects": int}).assign(
        failed=failed, wanted=len(layout.seeds)
    )


def comparison(spread: pd.DataFrame, scores: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """IoU without and with background, the paper's beside it, and a test against the best baseline of the budget."""
    rows = cells(spread, layout, (HEADLINE, WITH_BACKGROUND))
    paper = pd.DataFrame(
        [
            (budget, method, *figures)
            for budget, methods in layout.paper_scores.items()
            for method, figures in methods.items()
        ],
        columns=[*CELL, "paper_mean", "paper_std"],
    )
    rows = rows.merge(paper, "left", on=CELL) if len(paper) else rows
    tests = [
        _test(scores, budget, method, best_baseline(rows, budget, layout))
        for budget in layout.budgets
        for method in layout.methods
    ]
    return rows.join(pd.DataFrame(tests, columns=["baseline", "difference", "p"]))


def best_baseline(rows: pd.DataFrame, budget: str, layout: Layout) -> str | None:
    """The baseline with the highest IoU at a budget."""
    part = rows[(rows["budget"] == budget) & rows["method"].isin(layout.baselines)].dropna(
        subset=f"{HEADLINE}_mean"
    )
    return (
        None
        if part.empty
        else str(part.sort_values(f"{HEADLINE}_mean", kind="stable")["method"].iloc[-1])
    )


def _test(
    scores: pd.DataFrame, budget: str, method: str, baseline: str | None
) -> tuple[str | None, float, float]:
    """Wilcoxon's signed-rank test over subjects, on the seeds that both have."""
    nothing = None, float("nan"), float("nan")
    if baseline is None or method == baseline:
        return nothing
    try:
        found = compare(scores[scores["budget"] == budget], method, baseline, HEADLINE)
    except UserError:  # a method without a run, or without one that the baseline has too
        return nothing
    return baseline, found.effect / 100, found.wilcoxon


def cost_of(costs: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """What a run of each method cost, the mean over its runs; the paper's beside it."""
    mean = costs.groupby("method")[COST].mean().assign(runs=costs.groupby("method").size())
    paper = pd.DataFrame(layout.paper_cost).T.add_prefix("paper_")
    return mean.reindex(layout.methods).join(paper).rename_axis("method").reset_index()


def in_order(spread: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """As the study lists budgets and methods, whichever run ended first."""
    return _every(layout).merge(spread, on=CELL)


def _every(layout: Layout) -> pd.DataFrame:
    return pd.DataFrame(
        [(budget, method) for budget in layout.budgets for method in layout.methods], columns=CELL
    )
