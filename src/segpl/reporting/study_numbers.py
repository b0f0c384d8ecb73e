"""The numbers of a study's tables: mean over seeds, tests against the best baseline, cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pandas as pd

from segpl.foundation.errors import UserError
from segpl.reporting.statistics import mean_of_regions
from segpl.reporting.verdict import compare

HEADLINE = "iou"
WITH_BACKGROUND = "mean_iou"
UNCERTAINTY = ("brier", "ece", "aurc", "nll")
"""Lower is better for all of them."""
CELL = ["budget", "method"]
CURVE = ["budget", "method", "shift", "level", "metric"]
PaperScores = Mapping[str, Mapping[str, tuple[float, float]]]
"""The paper's mean and standard deviation in per cent, by budget and method."""
PaperCost = Mapping[str, Mapping[str, float]]
"""The paper's seconds, gigaflops and parameters, by method."""
COST = ["seconds", "flops_prediction", "flops_labelled", "flops_unlabelled", "parameters"]


@dataclass(frozen=True)
class Layout:
    """What a study asks: the rows of its tables, whether or not their runs succeeded."""

    title: str
    methods: list[str]
    budgets: list[str]
    seeds: list[int]
    baselines: list[str]
    """The methods that the others are tested against."""
    failed: Mapping[tuple[str, str], int]
    """Number of failed runs by budget and method."""
    paper: str = ""
    """Where in the paper its figures are."""
    paper_scores: PaperScores = field(default_factory=dict)
    paper_cost: PaperCost = field(default_factory=dict)
    notes: Sequence[str] = ()
    """Further notes below the tables."""


class BaselineTest(NamedTuple):
    """A method against the best baseline of its budget; undefined if they cannot be compared."""

    baseline: str | None = None
    difference: float = float("nan")
    """Mean difference of the IoU, as a fraction of 1."""
    p: float = float("nan")
    """Wilcoxon's signed-rank test over subjects, on the seeds that both have."""


def over_seeds(scores: pd.DataFrame) -> pd.DataFrame:
    """Mean, standard deviation and range over seeds of the mean over subjects.

    `seeds` and `subjects` count what is behind each mean.
    """
    subject_means = mean_of_regions(scores, [*CURVE, "seed", "subject"])
    subjects = subject_means.reset_index().dropna(subset="value")
    by_seed = subjects.groupby([*CURVE, "seed"], sort=False)
    seed_means = by_seed["value"].mean()
    by_curve = seed_means.groupby(CURVE, sort=False)
    table = by_curve.agg(["mean", "std", "min", "max", "count"])
    table = table.rename(columns={"count": "seeds"})
    subject_counts = subjects.groupby(CURVE, sort=False)["subject"].nunique()
    return table.assign(subjects=subject_counts).reset_index()


def cells(spread: pd.DataFrame, layout: Layout, metrics: Sequence[str]) -> pd.DataFrame:
    """A row for every budget and method, with the scores of the clean images.

    Each metric has a mean and a standard deviation. `seeds` and `subjects` are counted for the
    first metric; `failed` and `wanted` count runs.
    """
    rows = _all_cells(layout)
    clean = spread[spread["shift"] == "clean"]
    for metric in metrics:
        scores = clean[clean["metric"] == metric]
        names = {"mean": f"{metric}_mean", "std": f"{metric}_std"}
        scores = scores[[*CELL, "mean", "std"]].rename(columns=names)
        rows = rows.merge(scores, "left", on=CELL)
    counts = clean[clean["metric"] == metrics[0]]
    rows = rows.merge(counts[[*CELL, "seeds", "subjects"]], "left", on=CELL)
    for count in ("seeds", "subjects"):
        rows[count] = rows[count].fillna(0).astype(int)
    failed = []
    for cell in zip(rows["budget"], rows["method"], strict=True):
        failed.append(layout.failed.get(cell, 0))
    return rows.assign(failed=failed, wanted=len(layout.seeds))


def comparison(spread: pd.DataFrame, scores: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """IoU without and with background, the paper's scores, and a test against the best baseline."""
    rows = cells(spread, layout, (HEADLINE, WITH_BACKGROUND))
    paper = _paper_scores(layout)
    if len(paper):
        rows = rows.merge(paper, "left", on=CELL)
    tests = []
    for budget in layout.budgets:
        baseline = best_baseline(rows, budget, layout)
        scores_of_budget = scores[scores["budget"] == budget]
        for method in layout.methods:
            tests.append(_test(scores_of_budget, method, baseline))
    return rows.join(pd.DataFrame(tests, columns=list(BaselineTest._fields)))


def _paper_scores(layout: Layout) -> pd.DataFrame:
    rows = []
    for budget, methods in layout.paper_scores.items():
        for method, (mean, deviation) in methods.items():
            rows.append((budget, method, mean, deviation))
    return pd.DataFrame(rows, columns=[*CELL, "paper_mean", "paper_std"])


def best_baseline(rows: pd.DataFrame, budget: str, layout: Layout) -> str | None:
    """The baseline with the highest IoU at a budget; None if no baseline has a score."""
    mean = f"{HEADLINE}_mean"
    rows_of_budget = rows[rows["budget"] == budget]
    is_baseline = rows_of_budget["method"].isin(layout.baselines)
    candidates = rows_of_budget[is_baseline].dropna(subset=mean)
    if candidates.empty:
        return None
    ascending = candidates.sort_values(mean, kind="stable")
    return str(ascending["method"].iloc[-1])


def _test(scores: pd.DataFrame, method: str, baseline: str | None) -> BaselineTest:
    """Test a method against a baseline, given the scores of one budget."""
    if baseline is None or method == baseline:
        return BaselineTest()
    try:
        result = compare(scores, method, baseline, HEADLINE)
    except UserError:  # the method has no run, or none with a seed that the baseline has too
        return BaselineTest()
    return BaselineTest(baseline, result.effect / 100, result.wilcoxon)


def cost_of(costs: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """The mean cost of a run of each method, beside the cost in the paper."""
    by_method = costs.groupby("method")
    mean = by_method[COST].mean().assign(runs=by_method.size())
    paper = pd.DataFrame(layout.paper_cost).T.add_prefix("paper_")
    table = mean.reindex(layout.methods).join(paper)
    return table.rename_axis("method").reset_index()


def in_order(spread: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """The rows of `spread` in the study's order of budgets and methods."""
    return _all_cells(layout).merge(spread, on=CELL)


def _all_cells(layout: Layout) -> pd.DataFrame:
    """A row for every budget and method of the study."""
    rows = []
    for budget in layout.budgets:
        for method in layout.methods:
            rows.append((budget, method))
    return pd.DataFrame(rows, columns=CELL)
