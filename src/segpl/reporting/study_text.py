"""The tables of a study as people read them: rounded, the best marked, with all that must be known to judge them."""

import pandas as pd

from segpl.reporting.study_numbers import CERTAINTY, HEADLINE, WITH_BACKGROUND, Layout
from segpl.reporting.tables import METRICS
from segpl.reporting.typeset import Cell, Mark, TextTable

NOTHING = "–"
SPREAD = (
    "Mean ± standard deviation over seeds of the mean over test subjects; cases of a subject are averaged first, then "
    "regions, and undefined scores (region absent from truth and mask) are left out."
)
SELECTION = (
    "The weights of a run are those with the best foreground IoU on its validation subjects or, where it has none, "
    "those of the last step."
)
TEST = (
    "p is Wilcoxon's signed-rank test over subjects (seeds averaged) against the best baseline of the same budget, not "
    "corrected for the number of tests."
)


def comparison_text(numbers: pd.DataFrame, layout: Layout) -> TextTable:
    """Which method finds most, at each budget."""
    columns = ["labelled", "method", "foreground IoU %", METRICS[WITH_BACKGROUND].title]
    columns += ["paper: IoU %"] if layout.paper_scores else []
    groups = []
    for _, part in numbers.groupby("budget", sort=False):
        marked = _scores(part, HEADLINE, ascending=False)
        beside = _scores(part, WITH_BACKGROUND, ascending=None)
        paper = [[Cell(_paper(row))] if layout.paper_scores else [] for _, row in part.iterrows()]
        ends = [[*_counts(row), Cell(_p(row))] for _, row in part.iterrows()]
        rows = zip(_names(part), marked, beside, paper, ends, strict=True)
        groups.append([[*names, score, other, *theirs, *end] for names, score, other, theirs, end in rows])
    source = f"The paper's figures are its own ({layout.paper}); it does not say whether background counts."
    notes = [SPREAD, SELECTION, TEST, *([source] if layout.paper_scores else []), *_failures(layout), *layout.notes]
    return TextTable(layout.title, [*columns, "seeds", "subjects", "p"], groups, notes)


def certainty_text(numbers: pd.DataFrame, layout: Layout) -> TextTable:
    """Whose probabilities can be believed."""
    groups = []
    for _, part in numbers.groupby("budget", sort=False):
        scores = zip(*(_scores(part, metric, ascending=True) for metric in CERTAINTY), strict=True)
        counts = [_counts(row) for _, row in part.iterrows()]
        groups.append([[*a, *b, *c] for a, b, c in zip(_names(part), scores, counts, strict=True)])
    columns = ["labelled", "method", *(METRICS[metric].title for metric in CERTAINTY), "seeds", "subjects"]
    notes = [f"Less is better. {SPREAD}", SELECTION, *_failures(layout), *layout.notes]
    return TextTable(f"{layout.title}: uncertainty", columns, groups, notes)


def cost_text(numbers: pd.DataFrame, layout: Layout) -> TextTable:
    """What each method costs."""
    ours = {"seconds": 1.0, "flops_prediction": 1e9, "flops_labelled": 1e9, "flops_unlabelled": 1e9, "parameters": 1e3}
    theirs = {"paper_seconds": 1.0, "paper_gigaflops": 1.0, "paper_parameters": 1e3} if layout.paper_cost else {}
    rows = [
        [Cell(str(row["method"]))]
        + [Cell(_short(row[key] / unit)) for key, unit in (ours | theirs).items()]
        + [Cell(_short(row["runs"]))]
        for _, row in numbers.iterrows()
    ]
    columns = ["method", "training s", "prediction GFLOP", "labelled GFLOP", "unlabelled GFLOP", "parameters K"]
    columns += ["paper: training s", "paper: GFLOP", "paper: parameters K"] if theirs else []
    notes = [
        "Mean over runs. Seconds are the median step times the number of steps, on the machine of the run.",
        "GFLOP are for one patch, forward only: to predict it, and to learn from it with and without a label. A "
        "product and a sum are two operations.",
        *([f"The paper's figures are its own ({layout.paper}), on its own machine."] if theirs else []),
        *layout.notes,
    ]
    return TextTable(f"{layout.title}: cost", [*columns, "runs"], [rows], notes)


def _names(part: pd.DataFrame) -> list[list[Cell]]:
    return [[Cell(str(row["budget"])), Cell(str(row["method"]))] for _, row in part.iterrows()]


def _scores(part: pd.DataFrame, metric: str, ascending: bool | None) -> list[Cell]:
    """Mean ± deviation of a metric; the best two are marked unless there is no order, or nothing to compare."""
    means, spreads, shown = part[f"{metric}_mean"], part[f"{metric}_std"], METRICS[metric]
    ranks = means.rank(method="min", ascending=bool(ascending))
    marks = {1.0: Mark.BEST, 2.0: Mark.SECOND} if ascending is not None and means.count() > 1 else {}
    texts = [
        _number(shown.factor * mean, shown.digits, shown.factor * spread)
        for mean, spread in zip(means, spreads, strict=True)
    ]
    return [Cell(text, marks.get(rank, Mark.NONE)) for text, rank in zip(texts, ranks, strict=True)]


def _number(value: float, digits: int, spread: float = float("nan")) -> str:
    if pd.isna(value):
        return NOTHING
    return f"{value:.{digits}f}" + ("" if pd.isna(spread) else f" ± {spread:.{digits}f}")


def _short(value: float) -> str:
    return NOTHING if pd.isna(value) else f"{value:.4g}"


def _counts(row: pd.Series) -> list[Cell]:
    """Seeds, and how many there should be; subjects."""
    seeds = f"{row['seeds']}" if row["seeds"] == row["wanted"] else f"{row['seeds']} of {row['wanted']}"
    return [Cell(seeds), Cell(f"{row['subjects']}")]


def _paper(row: pd.Series) -> str:
    return _number(row["paper_mean"], 2, row["paper_std"])


def _p(row: pd.Series) -> str:
    return NOTHING if pd.isna(row["p"]) else f"{row['p']:.2g} vs {row['baseline']}"


def _failures(layout: Layout) -> list[str]:
    """Which runs are missing from the means."""
    return [
        f"{count} of {len(layout.seeds)} runs of {method} at {budget} failed."
        for budget in layout.budgets
        for method in layout.methods
        if (count := layout.failed.get((budget, method), 0))
    ]
