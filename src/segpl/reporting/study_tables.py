"""The tables of a study as files: Markdown to read, LaTeX for an article, JSON and CSV."""

from pathlib import Path

import pandas as pd

from segpl.foundation.errors import UserError
from segpl.foundation.files import write_text
from segpl.foundation.tables import write_frame
from segpl.reporting.render import latex, markdown
from segpl.reporting.study_numbers import (
    UNCERTAINTY,
    Layout,
    cells,
    comparison,
    cost_of,
    in_order,
    over_seeds,
)
from segpl.reporting.study_text import comparison_table, cost_table, uncertainty_table
from segpl.reporting.table import TABLE_ENDING, Table, to_json


def write_study_tables(
    folder: Path, scores: pd.DataFrame, costs: pd.DataFrame, layout: Layout
) -> list[Path]:
    """Write every table for which there are scores, and return the files.

    `scores` has a column `budget` and the study's names of methods. The files in `folder` depend on
    the arguments only. The table of cost contains measured times, which differ from run to run, so
    it is written beside `folder`.
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
    if not costs.empty:
        cost = cost_of(costs, layout)
        files += _write(folder.parent / "cost", cost, cost_table(cost, layout))
    return files


def _write(stem: Path, numbers: pd.DataFrame, table: Table) -> list[Path]:
    """Write a table in every format. `stem` is the path of the files without their endings."""
    texts = {".md": markdown(table), ".tex": latex(table), TABLE_ENDING: to_json(table)}
    files = []
    for ending, text in texts.items():
        file = stem.with_suffix(ending)
        write_text(file, text)
        files.append(file)
    files.append(_write_csv(stem.with_suffix(".csv"), numbers))
    return files


def _write_csv(file: Path, numbers: pd.DataFrame) -> Path:
    write_frame(file, numbers, float_format="%.6g")
    return file
