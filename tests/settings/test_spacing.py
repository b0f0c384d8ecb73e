"""The arithmetic of grids."""

from math import prod

import pytest

from segpl.settings.spacing import coarsened, step_to_fit, steps_to_try


@pytest.mark.parametrize(
    ("spacing", "view", "voxels", "step"),
    [
        pytest.param([1, 1], [100, 100], 10_000, 1, id="fits as it is"),
        pytest.param([1, 1], [200, 200], 10_000, 2, id="both axes"),
        pytest.param([1, 4], [200, 200], 5_000, 2, id="the finer axis: 100 x 50 voxels"),
        pytest.param([1, 2, 8], [80, 80, 80], 4_000, 4, id="two axes: 20 x 20 x 10 voxels"),
        pytest.param([1, 2, 8], [80, 80, 80], 125, 16, id="all axes: 5 x 5 x 5 voxels"),
    ],
)
def test_the_finest_axes_are_coarsened_first(spacing, view, voxels, step):
    assert step_to_fit(spacing, view, voxels) == pytest.approx(step)
    sizes = [side / axis for side, axis in zip(view, coarsened(spacing, step), strict=True)]
    assert prod(sizes) == pytest.approx(voxels)


def test_grids_are_tried_from_coarse_to_fine():
    steps = steps_to_try(1, 256 / 100)
    assert steps[0] == 2.56
    assert steps == sorted(steps, reverse=True)
    assert steps[-1] >= 1.1


def test_no_grid_is_tried_that_is_hardly_coarser_than_the_images():
    assert steps_to_try(1, 1.05) == []


def test_steps_are_rounded_after_those_to_try_are_chosen():
    assert steps_to_try(1.0001, 1.1003) == [1.1]
