"""Levels and numbers of a prediction, against hand-worked cases and the plain formulas."""

import numpy as np
import pytest
import torch
from scipy.ndimage import distance_transform_edt

from segpl.data.resampling import resample
from segpl.inference import levels as levels_module
from segpl.inference.levels import (
    ENTROPY,
    FULL,
    HALF,
    count_levels,
    resample_levels,
    to_levels,
    to_probabilities,
    z_slabs,
)
from segpl.inference.numbers import MARGIN, interval, near_mask, region_numbers

RNG = np.random.default_rng(0)
SPACING = (0.9, 1.3, 2.2)


@pytest.fixture(params=[1, 2**22], ids=["plane by plane", "at once"])
def slab(request, monkeypatch):
    """Volumes in thin slabs, and as a whole."""
    monkeypatch.setattr(levels_module, "SLAB", request.param)


def smooth_probabilities(shape=(20, 24, 13)):
    """Probabilities with a few blobs."""
    coarse = torch.from_numpy(RNG.normal(0, 2, (1, 5, 6, 4)).astype(np.float32))
    return resample(coarse, shape)[0].sigmoid()


def entropy_bits(p):
    return -p * np.log2(p) - (1 - p) * np.log2(1 - p)


def test_levels_of_known_probabilities():
    just_above_half = np.nextafter(np.float32(0.5), 1)
    p = torch.tensor([0.0, 0.25, 0.5, 0.5 + 1e-6, 1.0, just_above_half])
    assert to_levels(p).tolist() == [0, 16384, HALF, HALF + 1, FULL, HALF + 1]


def test_levels_keep_a_probability_on_its_side_of_one_half():
    p = torch.rand(100000)
    np.testing.assert_array_equal(to_levels(p) > HALF, p > 0.5)


def test_levels_are_the_nearest():
    p = torch.rand(100000)
    np.testing.assert_allclose(to_probabilities(to_levels(p)), p, atol=0.5 / FULL + 1e-7)


def test_rounding_beyond_0_and_1_is_clamped():
    assert to_levels(torch.tensor([1.0000001, -1e-7])).tolist() == [FULL, 0]


def test_entropy_in_bits():
    assert ENTROPY[0] == ENTROPY[FULL] == 0
    assert ENTROPY[HALF] == pytest.approx(1)
    assert ENTROPY[to_levels(torch.tensor([0.11]))[0]] == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(
    "shape", [(20, 24, 13), (7, 9, 5), (31, 40, 26), (10, 30, 13), (20, 24, 1), (20, 24, 30)]
)
@pytest.mark.usefixtures("slab")
def test_resampling_levels_is_resampling_probabilities(shape):
    p = torch.stack([smooth_probabilities(), smooth_probabilities()])
    resampled = to_probabilities(resample_levels(to_levels(p), shape))
    np.testing.assert_allclose(resampled, resample(p, shape), atol=1.1 / FULL)


def test_numbers_of_a_hand_worked_case():
    """Ten voxels in a row, 2 x 2 x 10 mm: 0.04 ml each; only neighbours in X are within 5 mm."""
    p = torch.tensor([0.0, 0.0, 0.0, 0.1, 0.6, 1.0, 1.0, 0.96, 0.3, 0.0])
    levels = to_levels(p).reshape(10, 1, 1)
    numbers = region_numbers(levels, levels, None, (2.0, 2.0, 10.0))
    assert numbers.volume_ml == pytest.approx(4 * 0.04)
    assert numbers.volume_low_ml == pytest.approx(3 * 0.04)
    assert numbers.volume_high_ml == pytest.approx(6 * 0.04)
    assert numbers.expected_dice == pytest.approx(2 * 3.56 / (3.96 + 4), abs=1e-4)
    uncertain = np.array([0.1, 0.6, 0.96, 0.3])
    voxels = 8  # four in the mask, two before it and two after it
    expected = entropy_bits(uncertain).sum() / voxels
    assert numbers.uncertainty == pytest.approx(expected, abs=1e-4)
    assert np.isnan(numbers.variance)


@pytest.mark.parametrize(("threshold", "low", "high"), [(0.2, 3, 6), (0.98, 2, 6), (0.02, 3, 7)])
def test_numbers_of_a_mask_that_is_cut_at_a_threshold(threshold, low, high):
    """The volume is that of the mask, and lies in its interval; the Dice is expected from p."""
    p = torch.tensor([0.0, 0.0, 0.04, 0.1, 0.6, 1.0, 1.0, 0.96, 0.3, 0.0]).reshape(10, 1, 1)
    for_mask = torch.where(p > threshold, 0.51, 0.49)
    numbers = region_numbers(to_levels(p), to_levels(for_mask), None, (2.0, 2.0, 10.0))
    mask = p > threshold
    assert numbers.volume_ml == pytest.approx(int(mask.sum()) * 0.04)
    assert numbers.volume_low_ml == pytest.approx(low * 0.04)
    assert numbers.volume_high_ml == pytest.approx(high * 0.04)
    expected_dice = 2 * p[mask].sum() / (p.sum() + mask.sum())
    assert numbers.expected_dice == pytest.approx(float(expected_dice), abs=1e-4)


@pytest.mark.usefixtures("slab")
def test_numbers_of_a_volume_are_the_plain_formulas():
    p = smooth_probabilities()
    variance = torch.rand(20, 24, 13) / 4
    numbers = region_numbers(to_levels(p), to_levels(p), to_levels(4 * variance), SPACING)
    p = p.double().numpy()
    mask = p > 0.5
    near = distance_transform_edt(~mask, sampling=SPACING) <= MARGIN
    expected_dice = 2 * p[mask].sum() / (p.sum() + mask.sum())
    assert numbers.volume_ml == pytest.approx(mask.sum() * np.prod(SPACING) / 1000)
    assert numbers.expected_dice == pytest.approx(expected_dice, rel=1e-4)
    assert numbers.uncertainty == pytest.approx(entropy_bits(p)[near].mean(), rel=1e-4)
    assert numbers.variance == pytest.approx(variance.numpy()[near].mean(), rel=1e-4)


@pytest.mark.usefixtures("slab")
def test_near_is_within_the_margin_of_the_mask():
    uniform = torch.rand(30, 28, 17, generator=torch.Generator().manual_seed(1))
    p = torch.where(uniform > 0.998, 0.9, 0.2)
    p[:, :, 12:] = 0.2
    is_outside = (p <= 0.5).numpy()
    expected = distance_transform_edt(is_outside, sampling=SPACING) <= MARGIN
    levels = to_levels(p)
    near = [near_mask(levels, planes, SPACING) for planes in z_slabs(p.shape)]
    np.testing.assert_array_equal(np.concatenate(near, axis=2), expected)


def test_an_empty_mask_has_a_volume_and_nothing_else():
    levels = to_levels(torch.full((4, 4, 4), 0.2))
    numbers = region_numbers(levels, levels, None, (1.0, 1.0, 1.0))
    assert numbers.volume_ml == 0
    assert numbers.volume_low_ml == 0
    assert numbers.volume_high_ml == pytest.approx(0.064), "the region may have been missed"
    assert np.isnan([numbers.expected_dice, numbers.uncertainty, numbers.variance]).all()


def test_the_interval_holds_nine_of_ten_volumes_if_borders_move_together():
    """Draw the true mask as assumed: all voxels whose probability exceeds one uniform number."""
    p = smooth_probabilities((40, 40, 20))
    low, high = interval(count_levels(to_levels(p)))
    volumes = np.array([(p > u).sum() for u in RNG.uniform(size=2000)])
    is_inside = (volumes >= low) & (volumes <= high)
    assert is_inside.mean() == pytest.approx(0.9, abs=0.02)
