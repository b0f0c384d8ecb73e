"""The tables of a study with their titles, columns and notes."""

from collections.abc import Sequence

import pandas as pd

from segpl.reporting.metric_columns import metric_column
from segpl.reporting.study_numbers import (
    CELL,
    HEADLINE,
    UNCERTAINTY,
    WITH_BACKGROUND,
    Layout,
    PaperScores,
)
from segpl.reporting.table import Column, Format, Row, Spread, Table, Value, text_column

AVERAGING = (
    "Mean ± standard deviation over seeds of the mean over test subjects. The cases of a subject "
    "are averaged first, then its regions. Undefined scores (region absent from truth and mask) "
    "are left out."
)
SELECTION = (
    "The weights of a run are those with the best foreground IoU on its validation subjects or, "
    "if it has none, those of the last step."
)
TEST = (
    "p is the p-value of Wilcoxon's signed-rank test over subjects (seeds averaged) against the "
    "best baseline at the same budget. It is not corrected for the number of tests."
)
IMAGES_NAME = "images"
"""Name of the files of the table of images."""
IMAGES = (
    "Images are slices where the network sees slices, and otherwise adjacent crops of the patch's "
    "size. The paper has 3433 slices of BRATS, and of CARVE 479 crops of 176 x 176 x 3, which are "
    "1437 slices."
)
IMAGE_AVERAGING = (
    "Per image: mean ± standard deviation over images. The regions of an image are averaged first, "
    "then its seeds. Images that are empty in truth and mask are undefined and left out."
)
SUBJECT_AVERAGING = (
    "Per subject: mean ± standard deviation over seeds of the mean over test subjects. A subject "
    "with many images counts as much as one with few, so the two means differ."
)
FOUR_DIGITS = ".4g"
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
RUNS_COLUMN = {"runs": Column("runs", Format(FOUR_DIGITS))}


def comparison_table(numbers: pd.DataFrame, layout: Layout) -> Table:
    """The IoU of every method at each budget, and a test against the best baseline."""
    columns = [
        text_column("labelled"),
        text_column("method"),
        metric_column(HEADLINE, title="foreground IoU %"),
        metric_column(WITH_BACKGROUND, ranked=False),
    ]
    notes = [AVERAGING, SELECTION, TEST]
    if layout.paper_scores:
        columns.append(Column("paper: IoU %", Format(".2f")))
        notes.append(
            f"The paper's figures are its own ({layout.paper}). "
            "The paper does not say whether background counts."
        )
    columns += [*_count_columns(), text_column("p")]
    groups = []
    for _, rows in numbers.groupby("budget", sort=False):
        groups.append([_comparison_row(row, layout) for _, row in rows.iterrows()])
    notes += _failure_notes(layout)
    notes += layout.notes
    return Table(layout.title, columns, groups, notes, marks_best=True)


def _comparison_row(row: pd.Series, layout: Layout) -> Row:
    cells: list[Value] = [
        *_names(row),
        _mean_and_deviation(row, HEADLINE),
        _mean_and_deviation(row, WITH_BACKGROUND),
    ]
    if layout.paper_scores:
        cells.append(_mean_and_deviation(row, "paper"))
    return [*cells, *_counts(row), _test_text(row)]


def uncertainty_table(numbers: pd.DataFrame, layout: Layout) -> Table:
    """Calibration and error detection of every method at each budget."""
    columns = [
        text_column("labelled"),
        text_column("method"),
        *(metric_column(metric) for metric in UNCERTAINTY),
        *_count_columns(),
    ]
    groups = []
    for _, rows in numbers.groupby("budget", sort=False):
        groups.append([_uncertainty_row(row) for _, row in rows.iterrows()])
    notes = [f"Lower is better. {AVERAGING}", SELECTION, *_failure_notes(layout), *layout.notes]
    return Table(f"{layout.title}: uncertainty", columns, groups, notes, marks_best=True)


def _uncertainty_row(row: pd.Series) -> Row:
    scores = [_mean_and_deviation(row, metric) for metric in UNCERTAINTY]
    return [*_names(row), *scores, *_counts(row)]


def image_table(
    numbers: pd.DataFrame, subjects: pd.DataFrame, title: str, layout: Layout | None = None
) -> Table:
    """The scores of `over_images`, beside the IoU over subjects (`over_seeds`) and the paper's."""
    columns = [
        text_column("labelled"),
        text_column("method"),
        metric_column(HEADLINE, title="IoU % per image"),
        metric_column(WITH_BACKGROUND, title="with background %", ranked=False),
        metric_column(HEADLINE, title="IoU % per subject"),
    ]
    notes = [IMAGES, IMAGE_AVERAGING, SUBJECT_AVERAGING]
    paper: PaperScores = layout.paper_scores if layout else {}
    if layout and paper:
        columns.append(Column("paper: IoU %", Format(".2f")))
        notes.append(f"The paper's figures are its own ({layout.paper}).")
    columns += [Column("images"), Column("undefined"), Column("seeds")]
    of_subjects = subjects[subjects["shift"] == "clean"][[*CELL, "mean", "std"]]
    renamed = of_subjects.rename(columns={"mean": "subject_mean", "std": "subject_std"})
    groups = []
    for _, rows in numbers.merge(renamed, "left", on=CELL).groupby("budget", sort=False):
        groups.append([_image_row(row, paper) for _, row in rows.iterrows()])
    return Table(title, columns, groups, notes, marks_best=True)


def _image_row(row: pd.Series, paper: PaperScores) -> Row:
    budget, method = _names(row)
    cells: list[Value] = [
        budget,
        method,
        _mean_and_deviation(row, HEADLINE),
        _mean_and_deviation(row, WITH_BACKGROUND),
        _mean_and_deviation(row, "subject"),
    ]
    if paper:
        mean_and_deviation = paper.get(budget, {}).get(method)
        cells.append(Spread(*mean_and_deviation) if mean_and_deviation else None)
    return [*cells, int(row["images"]), int(row["undefined"]), int(row["seeds"])]


def cost_table(numbers: pd.DataFrame, layout: Layout) -> Table:
    """The cost of each method, beside the cost in the paper if it is known."""
    columns = dict(COST_COLUMNS)
    notes = [
        "Mean over runs. Seconds are the median time of a step times the number of steps, on the "
        "machine of the run.",
        "GFLOP are for the forward pass of one patch: to predict it, and to learn from it with and "
        "without a label. A multiplication and an addition are two operations.",
    ]
    if layout.paper_cost:
        columns |= PAPER_COST_COLUMNS
        notes.append(f"The paper's figures are its own ({layout.paper}), on its own machine.")
    columns |= RUNS_COLUMN
    rows: list[Row] = []
    for _, row in numbers.iterrows():
        costs = [float(row[key]) for key in columns]
        rows.append([str(row["method"]), *costs])
    notes += layout.notes
    title = f"{layout.title}: cost"
    return Table(title, [text_column("method"), *columns.values()], [rows], notes)


def _names(row: pd.Series) -> list[str]:
    return [str(row["budget"]), str(row["method"])]


def _mean_and_deviation(row: pd.Series, metric: str) -> Spread:
    return Spread(row[f"{metric}_mean"], row[f"{metric}_std"])


def _count_columns() -> Sequence[Column]:
    return Column("seeds"), Column("subjects")


def _counts(row: pd.Series) -> tuple[Value, Value]:
    """The numbers of seeds and of subjects; "1 of 2" seeds if runs are missing."""
    seeds = int(row["seeds"])
    wanted = int(row["wanted"])
    subjects = int(row["subjects"])
    if seeds != wanted:
        return f"{seeds} of {wanted}", subjects
    return seeds, subjects


def _test_text(row: pd.Series) -> str | None:
    """The p-value and the baseline; None if the method was not tested."""
    if pd.isna(row["p"]):
        return None
    return f"{row['p']:.2g} vs {row['baseline']}"


def _failure_notes(layout: Layout) -> list[str]:
    """A sentence for each budget and method of which runs are missing from the means."""
    sentences = []
    for budget in layout.budgets:
        for method in layout.methods:
            failed = layout.failed.get((budget, method), 0)
            if failed:
                runs = f"{failed} of {len(layout.seeds)} runs"
                sentences.append(f"{runs} of {method} at {budget} failed.")
    return sentences
