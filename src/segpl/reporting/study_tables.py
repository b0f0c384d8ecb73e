"""The tables of a study as files: Markdown for reading, LaTeX for an article, CSV for whatever else."""

from pathlib import Path

import pandas as pd

from segpl.foundation.errors import UserError
from segpl.foundation.files import write_text
from segpl.reporting.study_numbers import CERTAINTY, Layout, cells, comparison, cost_of, in_order, over_seeds
from segpl.reporting.study_text import certainty_text, comparison_text, cost_text
from segpl.reporting.typeset import TextTable, latex, markdown


def write_study_tables(folder: Path, scores: pd.DataFrame, costs: pd.DataFrame, layout: Layout) -> list[Path]:
    """Write every table that the scores allow, as Markdown, LaTeX and CSV.

    `scores` has a column `budget`, and the study's names of methods. Nothing but these decides what is written. What
    was measured with a clock, and so is never the same twice, goes beside the folder: the table of cost.
    """
    if scores.empty:
        raise UserError(f"{folder}: no run has succeeded, so there are no tables: mend what failed, and try again.")
    spread = over_seeds(scores)
    compared = comparison(spread, scores, layout)
    files = _write(folder / "comparison", compared, comparison_text(compared, layout))
    if set(CERTAINTY) <= set(scores["metric"]):
        certain = cells(spread, layout, CERTAINTY)
        files += _write(folder / "uncertainty", certain, certainty_text(certain, layout))
    if (scores["shift"] != "clean").any():
        files.append(_csv(folder / "robustness.csv", in_order(spread, layout)))
    if not costs.empty:
        cost = cost_of(costs, layout)
        files += _write(folder.parent / "cost", cost, cost_text(cost, layout))
    return files


def _write(stem: Path, numbers: pd.DataFrame, text: TextTable) -> list[Path]:
    files = {".md": markdown(text), ".tex": latex(text)}
    for ending, content in files.items():
        write_text(stem.with_suffix(ending), content)
    return [*(stem.with_suffix(ending) for ending in files), _csv(stem.with_suffix(".csv"), numbers)]


def _csv(file: Path, numbers: pd.DataFrame) -> Path:
    write_text(file, numbers.to_csv(index=False, float_format="%.6g"))
    return file
