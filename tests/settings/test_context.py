"""The arithmetic of grids and patches."""

from math import prod

import pytest

from segpl.networks.unet import strides
from segpl.settings.context import (
    PLANE,
    SLACK,
    VOLUME,
    coarsened,
    fit_patch,
    step_to_fit,
    steps_to_try,
    wanted_view,
)


def test_a_patch_should_see_most_of_the_image_or_the_object_with_its_surroundings():
    assert wanted_view([100, 50], None) == [80, 40]
    assert wanted_view([100, 50], [20, 30]) == [60, 40]


@pytest.mark.parametrize(
    ("native", "view", "voxels", "step"),
    [
        ([1, 1], [100, 100], 10_000, 1),  # it fits as it is
        ([1, 1], [200, 200], 10_000, 2),
        ([1, 4], [200, 200], 5_000, 2),  # only the finer axis: 100 x 50 voxels
        ([1, 2, 8], [80, 80, 80], 4_000, 4),  # 20 x 20 x 10
        ([1, 2, 8], [80, 80, 80], 125, 16),  # all three: 5 x 5 x 5
    ],
)
def test_the_finest_axes_are_coarsened_first(native, view, voxels, step):
    assert step_to_fit(native, view, voxels) == pytest.approx(step)
    sizes = [side / axis for side, axis in zip(view, coarsened(native, step), strict=True)]
    assert prod(sizes) == pytest.approx(voxels)


def test_grids_are_tried_from_coarse_to_fine_in_equal_ratios():
    steps = steps_to_try(1, 256 / 100)
    assert steps[0] == 2.56
    assert steps == sorted(steps, reverse=True)
    assert steps[-1] >= 1.1
    assert steps_to_try(1, 1.05) == [], "hardly coarser than the images"
    assert steps_to_try(1.0001, 1.1003) == [1.1], "rounded only after the choice"


@pytest.mark.parametrize(
    ("image", "view", "objects", "patch"),
    [
        ((100, 90), (80, 72), None, [96, 96]),  # small images whole, in steps of 16
        ((7, 9), (5, 7), None, [16, 16]),
        ((125, 93, 42), (100, 74, 33), (60, 40, 30), [104, 80, 32]),  # all sides near their view
        (
            (512, 512, 16),
            (410, 410, 13),
            (512, 512, 16),
            [128, 136, 16],
        ),  # out of reach: the longest
        ((512, 512, 3), (410, 410, 2), None, [304, 304, 3]),  # thin volumes keep their slices
        (
            (300, 60, 300),
            (240, 48, 240),
            (300, 30, 30),
            [176, 40, 40],
        ),  # a long object stays in view
    ],
)
def test_patches_shrink_where_they_can_spare_it(image, view, objects, patch):
    assert fit_patch(image, view, objects) == patch


def test_every_patch_fits_its_budget_and_a_u_net():
    for width in (5, 16, 33, 100, 250, 700):
        for height in (17, 90, 300):
            for depth in (None, 1, 3, 7, 8, 9, 40, 300):
                image = [width, height] if depth is None else [width, height, depth]
                patch = fit_patch(image, [0.8 * side for side in image], None)
                assert prod(patch) <= SLACK * (PLANE if depth is None else VOLUME)
                for axis, size in enumerate(patch):
                    shrink = prod(step[axis] for step in strides(patch))
                    assert size % shrink == 0
                    assert size // shrink >= min(4, size)
