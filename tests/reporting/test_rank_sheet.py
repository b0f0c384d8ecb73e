"""The contact sheet: what is drawn of each scan, and how it lies."""

import io

import matplotlib.image
import numpy as np
import pytest

from segpl.reporting.rank_sheet import ROWS, Row, Tile, draw_sheet

REGIONS = {1: "whole", 4: "core"}


def tile(mask, aspect=1.0):
    image = np.random.default_rng(0).normal(size=mask.shape)
    return Tile(
        image, mask.astype(np.uint8), np.linspace(0, 1, mask.size).reshape(mask.shape), aspect
    )


def square(size=20):
    mask = np.zeros((size, size))
    mask[3:10, 12:18] = 1
    mask[5:7, 14:16] = 4
    return mask


def outlines(axis):
    """The corners of each outline: left, right, top and bottom."""
    paths = [path.vertices for lines in axis.collections for path in lines.get_paths()]
    return [
        (*np.round((p[:, 0].min(), p[:, 0].max()), 1), *np.round((p[:, 1].min(), p[:, 1].max()), 1))
        for p in paths
    ]


def pictures(figure, row):
    """The slice and the entropy of a row."""
    return [axis for axis in figure.axes if axis.images][2 * row : 2 * row + 2]


def test_a_row_shows_the_slice_the_outline_and_the_entropy():
    given = tile(square())
    figure = draw_sheet([Row("1. first", "uncertain", given)], REGIONS)
    picture, doubt = pictures(figure, 0)
    assert np.array_equal(picture.images[0].get_array(), given.image)
    assert np.array_equal(doubt.images[0].get_array(), given.entropy)
    assert doubt.images[0].get_clim() == (0, 1), "scans can be compared"
    assert (11.5, 17.5, 2.5, 9.5) in outlines(picture), (
        "columns 12 to 17, rows 3 to 9 counted from the top"
    )
    assert picture.get_ylim() == (19.5, -0.5)
    words = [text.get_text() for axis in figure.axes for text in axis.texts]
    assert words == ["1. first", "uncertain"]


@pytest.mark.parametrize("shape", [(6, 8), (1, 9), (1, 1)])
def test_what_touches_the_edge_has_a_closed_outline(shape):
    picture, _ = pictures(draw_sheet([Row("", "", tile(np.ones(shape)))], REGIONS), 0)
    assert outlines(picture) == [(-0.5, shape[1] - 0.5, -0.5, shape[0] - 0.5)]


def test_an_empty_mask_has_no_outline():
    picture, _ = pictures(draw_sheet([Row("", "", tile(np.zeros((9, 9))))], REGIONS), 0)
    assert outlines(picture) == []


def test_pixels_are_as_high_as_the_spacing_says():
    figure = draw_sheet([Row("", "", tile(square(), aspect=2.5))], REGIONS)
    assert [axis.get_aspect() for axis in pictures(figure, 0)] == [2.5, 2.5]


def test_there_are_ten_rows_at_most():
    figure = draw_sheet(
        [Row(f"scan {number}", "", tile(square())) for number in range(13)], REGIONS
    )
    words = [text.get_text() for axis in figure.axes for text in axis.texts]
    assert [word for word in words if word] == [f"scan {number}" for number in range(ROWS)]


def test_every_region_has_a_colour_of_its_own_in_the_legend():
    (legend,) = draw_sheet([Row("", "", tile(square()))], REGIONS).legends
    assert [text.get_text() for text in legend.get_texts()] == ["whole", "core"]
    assert len({line.get_color() for line in legend.get_lines()}) == 2


def test_a_long_name_stays_in_its_column():
    name = "1. " + "a_very_long_name_of_a_case_that_goes_on_and_on" * 2
    figure = draw_sheet([Row(name, "uncertain; " * 8, tile(square()))], REGIONS)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    file.seek(0)
    assert matplotlib.image.imread(file).shape[2] == 4
    title, reason = (text.get_window_extent() for axis in figure.axes for text in axis.texts)
    assert title.x1 <= pictures(figure, 0)[0].get_window_extent().x0
    assert reason.y1 <= title.y0
