"""The tables of a study as people read them, with all that one must know to judge them."""

from collections.abc import Sequence

import pandas as pd

from segpl.reporting.study_numbers import CERTAINTY, HEADLINE, WITH_BACKGROUND, Layout
from segpl.reporting.table import Column, Format, Row, Spread, Table, Value, text_column
from segpl.reporting.tables import metric_column

SPREAD = (
    "Mean ± standard deviation over seeds of the mean over test subjects; cases of a subject are "
    "averaged first, then regions, and undefined scores (region absent from truth and mask) are "
    "left out."
)
SELECTION = (
    "The weights of a run are those with the best foreground IoU on its validation subjects or, "
    "where it has none, those of the last step."
)
TEST = (
    "p is Wilcoxon's signed-rank test over subjects (seeds averaged) against the best baseline of "
    "the same budget, not corrected for the number of tests."
)
FOUR_DIGITS = ".4g"


def comparison_table(numbers: pd.DataFrame, layout: Layout) -> Table:
    """Which method finds most, at each budget."""
    columns = [
        text_column("labelled"),
        text_column("method"),
        metric_column(HEADLINE, title="foreground IoU %"),
        metric_column(WITH_BACKGROUND, ranked=False),
    ]
    notes = [SPREAD, SELECTION, TEST]
    if layout.paper_scores:
        columns.append(Column("paper: IoU %", Format(".2f")))
        notes.append(
            f"The paper's figures are its own ({layout.paper}); it does not say whether background counts."
        )
    columns += [*_count_columns(), text_column("p")]
    groups = []
    for _, part in numbers.groupby("budget", sort=False):
        groups.append([_comparison_row(row, layout) for _, row in part.iterrows()])
    notes += [*_failures(layout), *layout.notes]
    return Table(layout.title, columns, groups, notes, marks_best=True)


def _comparison_row(row: pd.Series, layout: Layout) -> Row:
    cells: list[Value] = [
        *_names(row),
        _mean_and_deviation(row, HEADLINE),
        _mean_and_deviation(row, WITH_BACKGROUND),
    ]
    if layout.paper_scores:
        cells.append(_mean_and_deviation(row, "paper"))
    return [*cells, *_counts(row), _test(row)]


def certainty_table(numbers: pd.DataFrame, layout: Layout) -> Table:
    """Whose probabilities are calibrated, and whose doubt finds the errors."""
    columns = [
        text_column("labelled"),
        text_column("method"),
        *(metric_column(metric) for metric in CERTAINTY),
        *_count_columns(),
    ]
    groups = []
    for _, part in numbers.groupby("budget", sort=False):
        groups.append([_certainty_row(row) for _, row in part.iterrows()])
    notes = [f"Lower is better. {SPREAD}", SELECTION, *_failures(layout), *layout.notes]
    return Table(f"{layout.title}: uncertainty", columns, groups, notes, marks_best=True)


def _certainty_row(row: pd.Series) -> Row:
    scores = [_mean_and_deviation(row, metric) for metric in CERTAINTY]
    return [*_names(row), *scores, *_counts(row)]


COST_COLUMNS = {
    "seconds": Column("training s", Format(FOUR_DIGITS)),
    "flops_prediction": Column("prediction GFLOP", Format(FOUR_DIGITS, 1e-9)),
    "flops_labelled": Column("labelled GFLOP", Format(FOUR_DIGITS, 1e-9)),
    "flops_unlabelled": Column("unlabelled GFLOP", Format(FOUR_DIGITS, 1e-9)),
    "parameters": Column("parameters K", Format(FOUR_DIGITS, 1e-3)),
}
PAPER_COST_COLUMNS = {
    "paper_seconds": Column("paper: training s", Format(FOUR_DIGITS)),
    "paper_gigaflops": Column("paper: GFLOP", Format(FOUR_DIGITS)),
    "paper_parameters": Column("paper: parameters K", Format(FOUR_DIGITS, 1e-3)),
}


def cost_table(numbers: pd.DataFrame, layout: Layout) -> Table:
    """What each method costs."""
    columns = dict(COST_COLUMNS)
    notes = [
        "Mean over runs. Seconds are the median step times the number of steps, on the machine of the run.",
        "GFLOP are for one patch, forward only: to predict it, and to learn from it with and "
        "without a label. A product and a sum are two operations.",
    ]
    if layout.paper_cost:
        columns |= PAPER_COST_COLUMNS
        notes.append(f"The paper's figures are its own ({layout.paper}), on its own machine.")
    columns["runs"] = Column("runs", Format(FOUR_DIGITS))
    rows: list[Row] = []
    for _, row in numbers.iterrows():
        rows.append([str(row["method"]), *(float(row[key]) for key in columns)])
    shown = [text_column("method"), *columns.values()]
    return Table(f"{layout.title}: cost", shown, [rows], [*notes, *layout.notes])


def _names(row: pd.Series) -> list[str]:
    return [str(row["budget"]), str(row["method"])]


def _mean_and_deviation(row: pd.Series, metric: str) -> Spread:
    return Spread(row[f"{metric}_mean"], row[f"{metric}_std"])


def _count_columns() -> Sequence[Column]:
    return Column("seeds"), Column("subjects")


def _counts(row: pd.Series) -> tuple[Value, Value]:
    """Seeds, and how many there should be where some are missing; subjects."""
    seeds = int(row["seeds"])
    wanted = int(row["wanted"])
    return (seeds if seeds == wanted else f"{seeds} of {wanted}"), int(row["subjects"])


def _test(row: pd.Series) -> str | None:
    return None if pd.isna(row["p"]) else f"{row['p']:.2g} vs {row['baseline']}"


def _failures(layout: Layout) -> list[str]:
    """Which runs are missing from the means."""
    sentences = []
    for budget in layout.budgets:
        for method in layout.methods:
            count = layout.failed.get((budget, method), 0)
            if count:
                runs = f"{count} of {len(layout.seeds)} runs of {method} at {budget}"
                sentences.append(f"{runs} failed.")
    return sentences
