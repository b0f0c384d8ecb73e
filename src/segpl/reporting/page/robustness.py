"""IoU under shifts of the images: numbers and plot."""

import pandas as pd
from matplotlib.figure import Figure

from segpl.reporting.material import Material
from segpl.reporting.page.style import CELL, add_legend, by_method, draw_band, make_panels
from segpl.reporting.study_numbers import over_seeds

COLUMNS = ["panel", *CELL, "shift", "level", "mean", "min", "max", "seeds", "subjects"]


def scores_by_level(material: Material) -> pd.DataFrame:
    """The IoU in per cent at each level of each shift: mean and range over seeds.

    Level 0 of every shift is the unchanged image.
    """
    scores = material.scores[material.scores["metric"] == "iou"]
    if scores.empty or (scores["shift"] == "clean").all():
        return pd.DataFrame()
    spread = over_seeds(scores)
    spread[["mean", "std", "min", "max"]] *= 100
    clean = spread[spread["shift"] == "clean"]
    shifted = spread[spread["shift"] != "clean"]
    tables = []
    for shift, rows in shifted.groupby("shift", sort=False):
        table = _with_level_zero(rows, clean)
        tables.append(table.assign(shift=shift))
    levels = pd.concat(tables, ignore_index=True).sort_values("level", kind="stable")
    panel = levels["shift"]
    if len(material.budgets) > 1:
        panel = panel + ", " + levels["budget"]
    return levels.assign(panel=panel)[COLUMNS]


def _with_level_zero(rows: pd.DataFrame, clean: pd.DataFrame) -> pd.DataFrame:
    """The rows of one shift after the clean rows of the same methods and budgets.

    A level 0 that was evaluated under the shift itself replaces the clean row.
    """
    cells = rows[CELL].drop_duplicates()
    level_zero = clean.merge(cells).assign(level=0.0)
    table = pd.concat([level_zero, rows])
    return table.drop_duplicates([*CELL, "level"], keep="last")


def draw_scores_by_level(numbers: pd.DataFrame) -> Figure:
    """Plot one panel per shift and one line per method, with a band over seeds."""
    figure, panels = make_panels(numbers, by="panel")
    for axis, rows in panels:
        for style, line in by_method(rows):
            draw_band(axis, line["level"], line["min"], line["max"], style.color)
            axis.plot(
                line["level"],
                line["mean"],
                color=style.color,
                ls=style.linestyle,
                marker=style.marker,
                ms=4,
                label=style.method,
            )
        shift = rows["shift"].iloc[0]
        axis.set(xlabel=f"level of {shift}", ylabel="IoU %", ylim=(0, None))
    return add_legend(figure)
