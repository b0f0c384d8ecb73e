"""How each metric is shown in a table: its title, unit and digits, and which values are better."""

from dataclasses import replace
from typing import NamedTuple

from segpl.reporting.table import Better, Column, Format


class Metric(NamedTuple):
    """How the values of a metric are written, and which of them are better."""

    title: str
    factor: float
    """Converts a score to the unit in the title: 100 for per cent."""
    digits: int
    """Decimal places."""
    better: Better

    @property
    def column(self) -> Column:
        """The column of a table that shows the metric."""
        return Column(self.title, Format(f".{self.digits}f", self.factor), better=self.better)


METRICS = {
    "iou": Metric("IoU %", 100, 1, Better.HIGHER),
    "dice": Metric("Dice %", 100, 1, Better.HIGHER),
    "mean_iou": Metric("mean IoU with background %", 100, 1, Better.HIGHER),
    "volume_error": Metric("volume error ml", 1, 2, Better.LOWER),
    "surface_dice": Metric("surface Dice %", 100, 1, Better.HIGHER),
    "hd95": Metric("HD95 mm", 1, 1, Better.LOWER),
    "brier": Metric("Brier", 1, 4, Better.LOWER),
    "ece": Metric("ECE %", 100, 2, Better.LOWER),
    "nll": Metric("NLL", 1, 4, Better.LOWER),
    "aurc": Metric("AURC %", 100, 3, Better.LOWER),
}
"""In the order of the tables. The first is the main score."""


def metric_column(metric: str, title: str | None = None, ranked: bool = True) -> Column:
    """The column of a metric, with another title if given.

    The best values of a column that is not `ranked` are not marked.
    """
    column = METRICS[metric].column
    if title is not None:
        column = replace(column, title=title)
    if not ranked:
        column = replace(column, better=None)
    return column
