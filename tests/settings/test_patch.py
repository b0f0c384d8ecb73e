"""The arithmetic of patches."""

from math import prod

import pytest

from segpl.networks.unet import strides
from segpl.settings.median_sizes import wanted_view
from segpl.settings.patch import SLACK, fit_patch, patch_voxels


def test_a_patch_should_cover_most_of_the_image_or_the_object_with_its_surroundings():
    assert wanted_view([100, 50], None) == [80, 40]
    assert wanted_view([100, 50], [20, 30]) == [60, 40]


@pytest.mark.parametrize(
    ("image", "view", "objects", "patch"),
    [
        pytest.param((100, 90), (80, 72), None, [96, 96], id="small: whole, in steps of 16"),
        pytest.param((7, 9), (5, 7), None, [16, 16], id="tiny: padded"),
        pytest.param(
            (125, 93, 42),
            (100, 74, 33),
            (60, 40, 30),
            [104, 80, 32],
            id="every side is near its view",
        ),
        pytest.param(
            (512, 512, 16),
            (410, 410, 13),
            (512, 512, 16),
            [128, 136, 16],
            id="view out of reach: the longest axis shrinks",
        ),
        pytest.param(
            (512, 512, 3),
            (410, 410, 2),
            None,
            [304, 304, 3],
            id="thin volumes keep their slices",
        ),
        pytest.param(
            (300, 60, 300),
            (240, 48, 240),
            (300, 30, 30),
            [176, 40, 40],
            id="a long object stays in view",
        ),
    ],
)
def test_patches_shrink_where_they_can_spare_it(image, view, objects, patch):
    assert fit_patch(image, view, objects) == patch


@pytest.mark.parametrize("depth", [None, 1, 3, 7, 8, 9, 40, 300])
@pytest.mark.parametrize("height", [17, 90, 300])
@pytest.mark.parametrize("width", [5, 16, 33, 100, 250, 700])
def test_every_patch_fits_its_budget_and_a_u_net(width, height, depth):
    image = [width, height]
    if depth is not None:
        image.append(depth)
    patch = fit_patch(image, [0.8 * side for side in image], None)
    assert prod(patch) <= SLACK * patch_voxels(len(image))
    for axis, size in enumerate(patch):
        shrinkage = prod(level[axis] for level in strides(patch))
        assert size % shrinkage == 0
        assert size // shrinkage >= min(4, size)
