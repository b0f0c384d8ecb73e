"""The sheet of scans to label next: what is drawn of each scan, and its orientation."""

import io

import numpy as np
import pytest

from segpl.reporting.rank_sheet import ROWS, Row, Tile, draw_sheet

REGIONS = {1: "whole", 4: "core"}


def tile(mask, aspect=1.0):
    image = np.random.default_rng(0).normal(size=mask.shape)
    entropy = np.linspace(0, 1, mask.size).reshape(mask.shape)
    return Tile(image, mask.astype(np.uint8), entropy, aspect)


def square(size=20):
    """A region in columns 12 to 17 and rows 3 to 9, with a core."""
    mask = np.zeros((size, size))
    mask[3:10, 12:18] = 1
    mask[5:7, 14:16] = 4
    return mask


def sheet_of(mask, aspect=1.0):
    """A sheet with one scan without text."""
    return draw_sheet([Row("", "", tile(mask, aspect))], REGIONS)


def outlines(axis):
    """The extent of each outline: left, right, top and bottom."""
    extents = []
    for lines in axis.collections:
        for path in lines.get_paths():
            x, y = path.vertices.T
            extent = np.round((x.min(), x.max(), y.min(), y.max()), 1)
            extents.append(tuple(extent))
    return extents


def slice_and_entropy(figure):
    """The axes of the slice and of the entropy of the first scan."""
    axes = [axis for axis in figure.axes if axis.images]
    return axes[:2]


def texts(figure):
    """What is written beside the slices."""
    result = []
    for axis in figure.axes:
        result += axis.texts
    return result


def test_a_row_has_title_and_reason():
    figure = draw_sheet([Row("1. first", "uncertain", tile(square()))], REGIONS)
    assert [text.get_text() for text in texts(figure)] == ["1. first", "uncertain"]


def test_a_row_shows_the_slice_with_its_first_row_at_the_top():
    given = tile(square())
    slice_axis, _ = slice_and_entropy(draw_sheet([Row("", "", given)], REGIONS))
    assert np.array_equal(slice_axis.images[0].get_array(), given.image)
    assert slice_axis.get_ylim() == (19.5, -0.5)


def test_a_row_shows_the_outline_of_a_region():
    slice_axis, _ = slice_and_entropy(sheet_of(square()))
    assert (11.5, 17.5, 2.5, 9.5) in outlines(slice_axis)


def test_the_entropy_has_the_same_scale_in_every_row():
    given = tile(square())
    _, entropy_axis = slice_and_entropy(draw_sheet([Row("", "", given)], REGIONS))
    assert np.array_equal(entropy_axis.images[0].get_array(), given.entropy)
    assert entropy_axis.images[0].get_clim() == (0, 1)


@pytest.mark.parametrize("shape", [(6, 8), (1, 9), (1, 1)])
def test_a_region_that_touches_the_edge_has_a_closed_outline(shape):
    slice_axis, _ = slice_and_entropy(sheet_of(np.ones(shape)))
    height, width = shape
    assert outlines(slice_axis) == [(-0.5, width - 0.5, -0.5, height - 0.5)]


def test_an_empty_mask_has_no_outline():
    slice_axis, _ = slice_and_entropy(sheet_of(np.zeros((9, 9))))
    assert outlines(slice_axis) == []


def test_pixels_have_the_aspect_of_the_spacing():
    axes = slice_and_entropy(sheet_of(square(), aspect=2.5))
    assert [axis.get_aspect() for axis in axes] == [2.5, 2.5]


def test_a_sheet_has_ten_rows_at_most():
    rows = [Row(f"scan {number}", "", tile(square())) for number in range(13)]
    titles = [text.get_text() for text in texts(draw_sheet(rows, REGIONS)) if text.get_text()]
    assert titles == [f"scan {number}" for number in range(ROWS)]


def test_every_region_has_a_colour_of_its_own_in_the_legend():
    (legend,) = sheet_of(square()).legends
    assert [text.get_text() for text in legend.get_texts()] == ["whole", "core"]
    assert len({line.get_color() for line in legend.get_lines()}) == 2


def test_a_long_name_stays_in_its_column():
    name = "1. " + "a_very_long_name_of_a_case_that_goes_on_and_on" * 2
    figure = draw_sheet([Row(name, "uncertain; " * 8, tile(square()))], REGIONS)
    figure.savefig(io.BytesIO(), format="png")  # places the texts
    title, reason = [text.get_window_extent() for text in texts(figure)]
    slice_axis, _ = slice_and_entropy(figure)
    assert title.x1 <= slice_axis.get_window_extent().x0
    assert reason.y1 <= title.y0
