"""Two methods on every test image, as in the paper: numbers, plot and table."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from segpl.reporting.image_scores import image_agreement, over_images, per_image
from segpl.reporting.material import Material
from segpl.reporting.page.accuracy import agreement_rows, draw_agreement
from segpl.reporting.page.style import make_panels, method_styles
from segpl.reporting.study_numbers import HEADLINE, over_seeds
from segpl.reporting.study_text import IMAGES_NAME, image_table
from segpl.reporting.table import Table

MAX_PANELS = 8
"""Comparisons that the figure shows; the file of its numbers has all."""


def image_differences(material: Material) -> pd.DataFrame:
    """One row per method, budget and image: its difference from the baseline in IoU points.

    Each row repeats the bias, the limits of agreement and the Mann-Whitney p-value of its method
    and budget. Seeds are averaged. Images with an undefined IoU, and budgets without the baseline,
    are left out.
    """
    baseline = material.baseline
    if material.images.empty or baseline is None:
        return pd.DataFrame()
    values = per_image(material.images)
    values = values.assign(value=100 * values["value"])
    tables = []
    for budget, rows in values.groupby("budget", sort=False):
        methods = list(rows["method"].unique())
        if baseline not in methods:
            continue
        for method in methods:
            if method != baseline:
                comparison = image_agreement(rows, method, baseline)
                table = agreement_rows(comparison.agreement, method, str(budget), baseline)
                tables.append(table.assign(mann_whitney=comparison.mann_whitney))
    if not tables:
        return pd.DataFrame()
    numbers = pd.concat(tables, ignore_index=True)
    panel = numbers["method"]
    if len(material.budgets) > 1:
        panel = panel + ", " + numbers["budget"]
    return numbers.assign(panel=panel)


def draw_image_differences(numbers: pd.DataFrame) -> Figure:
    """One panel per method and budget: a point per image, the bias and the 95 % limits."""
    names = list(numbers["panel"].unique())
    shown = numbers[numbers["panel"].isin(names[:MAX_PANELS])]
    figure, panels = make_panels(shown, by="panel")
    styles = method_styles(numbers["method"])
    for axis, rows in panels:
        first = rows.iloc[0]
        axis.axhline(0, color="black", lw=0.8)
        draw_agreement(axis, rows, styles[first["method"]])
        axis.set_title(f"{first['panel']}\n{_summary(first)}", loc="left", fontsize=9)
        axis.set(
            xlabel=f"mean IoU % of method and {first['baseline']}",
            ylabel=f"difference from {first['baseline']}, IoU points",
        )
    if len(names) > MAX_PANELS:
        note = f"{MAX_PANELS} of {len(names)} comparisons; the CSV file has all."
        figure.supxlabel(note, fontsize=8)
    return figure


def _summary(row: pd.Series) -> str:
    """The mean difference, the limits of agreement and the p-value."""
    if np.isnan(row["bias"]):
        return "one image only"
    return (
        f"mean {row['bias']:+.1f}, limits {row['low']:.1f} to {row['high']:.1f}, "
        f"Mann-Whitney p = {row['mann_whitney']:.2g}"
    )


def images_table(material: Material) -> list[Table]:
    """The IoU over images beside that over subjects; no table if the study wrote one."""
    written = [file.name.partition(".")[0] for file in material.study_tables]
    if material.images.empty or IMAGES_NAME in written:
        return []
    numbers = over_images(material.images)
    subjects = over_seeds(material.clean[material.clean["metric"] == HEADLINE])
    return [image_table(numbers, subjects, "IoU over test images")]
