"""A sheet of the scans to label next: one row per scan, at its most uncertain slice."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Shaped, UInt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D

from segpl.reporting.colours import COLOURS

ROWS = 10
"""The largest number of scans on a sheet."""
TITLE_WIDTH = 26
REASON_WIDTH = 32
"""In characters."""


class Tile(NamedTuple):
    """One slice as a viewer shows it: the first row is at the top."""

    image: Shaped[np.ndarray, "R C"]
    mask: UInt[np.ndarray, "R C"]
    """The predicted label map."""
    entropy: Float[np.ndarray, "R C"]
    """In bits."""
    aspect: float
    """Height of a pixel divided by its width."""


class Row(NamedTuple):
    """One scan on the sheet."""

    title: str
    reason: str
    tile: Tile


def draw_sheet(rows: Sequence[Row], regions: Mapping[int, str]) -> Figure:
    """Draw the first scans: text, the slice with the predicted outline, and the entropy.

    `regions` maps the values of the masks to the names of the regions.
    """
    rows = rows[:ROWS]
    height = 2.4 * len(rows) + 1
    figure = Figure(figsize=(7.6, height), layout="constrained")
    axes = figure.subplots(len(rows), 3, squeeze=False, width_ratios=(1.1, 1, 1))
    colours = _region_colours(regions)
    for (text_axis, slice_axis, entropy_axis), row in zip(axes, rows, strict=True):
        _draw_text(text_axis, row)
        _draw_outlined_slice(slice_axis, row.tile, colours)
        entropy_image = _draw_entropy(entropy_axis, row.tile)
    axes[0, 1].set_title("first channel, predicted outline", fontsize=10)
    axes[0, 2].set_title("uncertainty", fontsize=10)
    figure.colorbar(
        entropy_image,
        ax=axes[:, 2],
        location="bottom",
        pad=0.05 / len(rows),
        label="entropy, bits",
    )
    _draw_legend(figure, regions, colours)
    return figure


def _region_colours(regions: Mapping[int, str]) -> dict[int, str]:
    """A colour for each value of a mask. Colours repeat if there are more regions than colours."""
    colours = {}
    for index, value in enumerate(sorted(regions)):
        colours[value] = COLOURS[index % len(COLOURS)]
    return colours


def _draw_text(axis: Axes, row: Row) -> None:
    title = fill(row.title, TITLE_WIDTH)
    reason = fill(row.reason, REASON_WIDTH)
    title_lines = title.count("\n") + 1
    reason_top = 0.9 - 0.1 * title_lines
    within = axis.transAxes
    axis.set_axis_off()
    axis.text(0, 0.95, title, va="top", fontsize=10, weight="bold", transform=within)
    axis.text(0, reason_top, reason, va="top", fontsize=9, transform=within)


def _draw_outlined_slice(axis: Axes, tile: Tile, colours: Mapping[int, str]) -> None:
    low, high = np.percentile(tile.image, (1, 99.5))
    axis.imshow(tile.image, cmap="gray", vmin=low, vmax=high, aspect=tile.aspect)
    for value, colour in colours.items():
        region = tile.mask == value
        if region.any():
            _draw_outline(axis, region, colour)
    height, width = tile.image.shape
    axis.set_xlim(-0.5, width - 0.5)
    axis.set_ylim(height - 0.5, -0.5)
    axis.set(xticks=[], yticks=[])


def _draw_outline(axis: Axes, region: Bool[np.ndarray, "R C"], colour: str) -> None:
    height, width = region.shape
    # A border of background closes the outline of a region that touches the edge of the image.
    padded = np.pad(region, 1).astype(float)
    rows = np.arange(-1, height + 1)
    columns = np.arange(-1, width + 1)
    axis.contour(columns, rows, padded, levels=[0.5], colors=[colour], linewidths=1)


def _draw_entropy(axis: Axes, tile: Tile) -> AxesImage:
    """Draw the entropy on the same scale for every scan, from 0 to 1 bit."""
    image = axis.imshow(tile.entropy, cmap="magma", vmin=0, vmax=1, aspect=tile.aspect)
    axis.set(xticks=[], yticks=[])
    return image


def _draw_legend(figure: Figure, regions: Mapping[int, str], colours: Mapping[int, str]) -> None:
    handles = []
    for value, name in sorted(regions.items()):
        handles.append(Line2D([], [], color=colours[value], label=name))
    figure.legend(handles=handles, loc="outside lower left", frameon=False, fontsize=9)
