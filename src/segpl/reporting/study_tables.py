"""The tables of a study as files: Markdown to read, LaTeX for an article, JSON for the report, CSV."""

from pathlib import Path

import pandas as pd

from segpl.foundation.errors import UserError
from segpl.foundation.files import write_text
from segpl.reporting.render import latex, markdown
from segpl.reporting.study_numbers import (
    CERTAINTY,
    Layout,
    cells,
    comparison,
    cost_of,
    in_order,
    over_seeds,
)
from segpl.reporting.study_text import certainty_table, comparison_table, cost_table
from segpl.reporting.table import TABLE_ENDING, Table, to_json


def write_study_tables(
    folder: Path, scores: pd.DataFrame, costs: pd.DataFrame, layout: Layout
) -> list[Path]:
    """Write every table that the scores allow, as Markdown, LaTeX, JSON and CSV.

    `scores` has a column `budget`, and the study's names of methods. What is written depends on the
    arguments alone. The table of cost was measured with a clock and is never the same twice: it goes
    beside the folder.
    """
    if scores.empty:
        raise UserError(
            f"{folder}: no run has succeeded, so there are no tables: fix what failed, and try again."
        )
    spread = over_seeds(scores)
    compared = comparison(spread, scores, layout)
    files = _write(folder / "comparison", compared, comparison_table(compared, layout))
    if set(CERTAINTY) <= set(scores["metric"]):
        certain = cells(spread, layout, CERTAINTY)
        files += _write(folder / "uncertainty", certain, certainty_table(certain, layout))
    if (scores["shift"] != "clean").any():
        files.append(_csv(folder / "robustness.csv", in_order(spread, layout)))
    if not costs.empty:
        cost = cost_of(costs, layout)
        files += _write(folder.parent / "cost", cost, cost_table(cost, layout))
    return files


def _write(stem: Path, numbers: pd.DataFrame, table: Table) -> list[Path]:
    texts = {".md": markdown(table), ".tex": latex(table), TABLE_ENDING: to_json(table)}
    files = []
    for ending, text in texts.items():
        file = stem.with_suffix(ending)
        write_text(file, text)
        files.append(file)
    return [*files, _csv(stem.with_suffix(".csv"), numbers)]


def _csv(file: Path, numbers: pd.DataFrame) -> Path:
    write_text(file, numbers.to_csv(index=False, float_format="%.6g"))
    return file
