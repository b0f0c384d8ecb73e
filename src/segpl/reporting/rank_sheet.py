"""A contact sheet of the scans to label next: a row for each, at the slice that the network is least sure of."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped, UInt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from segpl.reporting.colours import COLOURS

ROWS = 10
"""At most."""


class Tile(NamedTuple):
    """One slice as it is looked at: the first row is the top one."""

    image: Shaped[np.ndarray, "R C"]
    mask: UInt[np.ndarray, "R C"]
    """A label map."""
    entropy: Float[np.ndarray, "R C"]
    """In bits."""
    aspect: float
    """The height of a pixel in its widths."""


class Row(NamedTuple):
    """A scan of the sheet."""

    title: str
    reason: str
    tile: Tile


def draw_sheet(rows: Sequence[Row], regions: Mapping[int, str]) -> Figure:
    """The first scans; `regions` names the values of the masks. Each slice with the outline of what was found, and the
    entropy beside it.
    """
    rows = rows[:ROWS]
    figure = Figure(figsize=(7.6, 2.4 * len(rows) + 1), layout="constrained")
    axes = figure.subplots(len(rows), 3, squeeze=False, width_ratios=(1.1, 1, 1))
    colours = dict(zip(sorted(regions), COLOURS * len(regions), strict=False))
    for (words, picture, doubt), row in zip(axes, rows, strict=True):
        words.set_axis_off()
        words.text(
            0,
            0.95,
            fill(row.title, 26),
            va="top",
            fontsize=10,
            weight="bold",
            transform=words.transAxes,
        )
        lines = fill(row.title, 26).count("\n") + 1
        words.text(
            0,
            0.9 - 0.1 * lines,
            fill(row.reason, 32),
            va="top",
            fontsize=9,
            transform=words.transAxes,
        )
        _outlined(picture, row.tile, colours)
        shown = doubt.imshow(row.tile.entropy, cmap="magma", vmin=0, vmax=1, aspect=row.tile.aspect)
        doubt.set(xticks=[], yticks=[])
    axes[0, 1].set_title("first channel, what is found", fontsize=10)
    axes[0, 2].set_title("uncertainty", fontsize=10)
    figure.colorbar(
        shown, ax=axes[:, 2], location="bottom", pad=0.05 / len(rows), label="entropy, bits"
    )
    handles = [
        Line2D([], [], color=colours[value], label=name) for value, name in sorted(regions.items())
    ]
    figure.legend(handles=handles, loc="outside lower left", frameon=False, fontsize=9)
    return figure


def _outlined(axis: Axes, tile: Tile, colours: Mapping[int, str]) -> None:
    low, high = np.percentile(tile.image, (1, 99.5))
    axis.imshow(tile.image, cmap="gray", vmin=low, vmax=high, aspect=tile.aspect)
    for value, colour in colours.items():
        inside = tile.mask == value
        if inside.any():
            # A border of background closes the outline of what touches the edge.
            rows, columns = (np.arange(-1, size + 1) for size in inside.shape)
            axis.contour(
                columns,
                rows,
                np.pad(inside, 1).astype(float),
                levels=[0.5],
                colors=[colour],
                linewidths=1,
            )
    axis.set(
        xticks=[],
        yticks=[],
        xlim=(-0.5, tile.image.shape[1] - 0.5),
        ylim=(tile.image.shape[0] - 0.5, -0.5),
    )
