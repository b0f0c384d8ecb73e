"""The tables of a study as files: Markdown to read, LaTeX for an article, JSON and CSV."""

from pathlib import Path

import pandas as pd

from segpl.foundation.errors import UserError
from segpl.foundation.files import write_text
from segpl.foundation.tables import write_frame
from segpl.reporting.image_scores import over_images
from segpl.reporting.paper_layout import paper_layout_table
from segpl.reporting.render import latex, markdown
from segpl.reporting.study_numbers import (
    HEADLINE,
    UNCERTAINTY,
    Layout,
    cells,
    comparison,
    cost_of,
    in_order,
    over_seeds,
)
from segpl.reporting.study_text import (
    IMAGES_NAME,
    comparison_table,
    cost_table,
    image_table,
    uncertainty_table,
)
from segpl.reporting.table import TABLE_ENDING, Table, to_json


def write_study_tables(
    folder: Path, scores: pd.DataFrame, costs: pd.DataFrame, layout: Layout
) -> list[Path]:
    """Write every table for which there are scores, and return the files.

    `scores` has a column `budget` and the study's names of methods. The files in `folder` depend on
    the arguments only. The tables of cost and in the paper's layout contain measured times, which
    differ from run to run, so they are written beside `folder`.
    """
    if scores.empty:
        raise UserError(
            f"{folder}: no run has succeeded, so there are no tables. "
            "Fix what failed and run the study again."
        )
    spread = over_seeds(scores)
    compared = comparison(spread, scores, layout)
    files = _write(folder / "comparison", compared, comparison_table(compared, layout))
    if set(UNCERTAINTY) <= set(scores["metric"]):
        numbers = cells(spread, layout, UNCERTAINTY)
        files += _write(folder / "uncertainty", numbers, uncertainty_table(numbers, layout))
    if (scores["shift"] != "clean").any():
        files.append(_write_csv(folder / "robustness.csv", in_order(spread, layout)))
    cost = pd.DataFrame()
    if not costs.empty:
        cost = cost_of(costs, layout)
        files += _write(folder.parent / "cost", cost, cost_table(cost, layout))
    if layout.paper_scores:
        table = paper_layout_table(compared, cost, layout)
        files += _write_table(folder.parent / "paper", table)
    return files


def write_image_table(
    folder: Path, images: pd.DataFrame, scores: pd.DataFrame, layout: Layout
) -> list[Path]:
    """Write the table of scores over images, as the paper counts them, and return the files."""
    if images.empty:
        return []
    numbers = in_order(over_images(images), layout)
    subjects = over_seeds(scores[scores["metric"] == HEADLINE])
    table = image_table(numbers, subjects, f"{layout.title}: test images", layout)
    return _write(folder / IMAGES_NAME, numbers, table)


def _write(stem: Path, numbers: pd.DataFrame, table: Table) -> list[Path]:
    """Write a table in every format, and its numbers as CSV."""
    return [*_write_table(stem, table), _write_csv(stem.with_suffix(".csv"), numbers)]


def _write_table(stem: Path, table: Table) -> list[Path]:
    """Write a table in every format. `stem` is the path of the files without their endings."""
    texts = {".md": markdown(table), ".tex": latex(table), TABLE_ENDING: to_json(table)}
    files = []
    for ending, text in texts.items():
        file = stem.with_suffix(ending)
        write_text(file, text)
        files.append(file)
    return files


def _write_csv(file: Path, numbers: pd.DataFrame) -> Path:
    write_frame(file, numbers, float_format="%.6g")
    return file
