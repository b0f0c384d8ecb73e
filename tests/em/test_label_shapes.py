"""The prior on label shapes, on small examples."""

import numpy as np
import torch

from segpl.em.label_shapes import keep_largest, keep_nested, largest_component


def two_pieces():
    """Two images of two regions; each region has a piece of 6 pixels and one of 2."""
    y = torch.zeros(2, 2, 8, 8)
    y[:, :, 0:2, 0:3] = 1
    y[:, :, 5, 5:7] = 1
    return y


def test_listed_regions_lose_their_small_pieces():
    kept = keep_largest(two_pieces(), [1])
    assert kept[:, 1].sum((1, 2)).tolist() == [6, 6]


def test_regions_that_are_not_listed_keep_their_small_pieces():
    y = two_pieces()
    assert torch.equal(keep_largest(y, [1])[:, 0], y[:, 0])
    assert torch.equal(keep_largest(y, []), y)


def test_pixels_that_touch_at_a_corner_are_connected():
    diagonal = np.eye(4, dtype=bool)
    assert np.array_equal(largest_component(diagonal), diagonal)


def test_voxels_that_touch_at_a_corner_are_connected():
    cube = np.zeros((4, 4, 4), dtype=bool)
    cube[0, 0, 0] = True
    cube[1, 1, 1] = True
    cube[3, 3, 3] = True
    assert largest_component(cube).sum() == 2


def test_an_empty_region_stays_empty():
    assert not largest_component(np.zeros((4, 4), dtype=bool)).any()


def test_an_inner_region_stays_inside_its_outer_one():
    y = torch.zeros(1, 3, 4, 4)
    y[:, 0, :2] = 1
    y[:, 1, 1:3] = 1
    y[:, 2, 1:4] = 1
    kept = keep_nested(y, [(1, 0), (2, 1)])
    assert kept[0, 1].sum(1).tolist() == [0, 4, 0, 0]
    assert kept[0, 2].sum(1).tolist() == [0, 4, 0, 0]
    assert torch.equal(kept[:, 0], y[:, 0])
