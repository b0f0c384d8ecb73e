"""Numbers of a prediction, against hand-worked cases and the plain formulas."""

import numpy as np
import pytest
import torch
from scipy.ndimage import distance_transform_edt

from segpl.data.preparation import resample
from segpl.inference import levels as level
from segpl.inference.levels import ENTROPY, FULL, HALF, packed, resampled, unpacked
from segpl.inference.numbers import MARGIN, interval, nearby, numbers

DRAW = np.random.default_rng(0)


@pytest.fixture(params=[1, 2**22], ids=["plane by plane", "at once"])
def slab(request, monkeypatch):
    monkeypatch.setattr(level, "SLAB", request.param)


def smooth(shape=(20, 24, 13)):
    """Probabilities with a few blobs."""
    coarse = torch.from_numpy(DRAW.normal(0, 2, (1, 5, 6, 4)).astype(np.float32))
    return resample(coarse, shape)[0].sigmoid()


def test_levels_keep_a_probability_on_its_side_of_one_half():
    p = torch.tensor([0.0, 0.25, 0.5, 0.5 + 1e-6, 1.0, np.nextafter(np.float32(0.5), 1)])
    assert packed(p).tolist() == [0, 16384, HALF, HALF + 1, FULL, HALF + 1]
    many = torch.rand(100000)
    np.testing.assert_allclose(unpacked(packed(many)), many, atol=0.5 / FULL + 1e-7)
    assert ((packed(many) > HALF) == (many > 0.5).numpy()).all()
    assert packed(torch.tensor([1.0000001, -1e-7])).tolist() == [FULL, 0]


def test_entropy_in_bits():
    assert ENTROPY[0] == ENTROPY[FULL] == 0
    assert ENTROPY[HALF] == pytest.approx(1)
    assert ENTROPY[packed(torch.tensor([0.11]))[0]] == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(
    "shape", [(20, 24, 13), (7, 9, 5), (31, 40, 26), (10, 30, 13), (20, 24, 1), (20, 24, 30)]
)
def test_resampling_slab_by_slab_is_resampling(shape, slab):
    p = torch.stack([smooth(), smooth()])
    found = unpacked(resampled(packed(p), shape))
    np.testing.assert_allclose(found, resample(p, shape), atol=1.1 / FULL)


def test_numbers_of_a_hand_worked_case():
    """Ten voxels in a row, 2 x 2 x 10 mm: 0.04 ml each; only neighbours in X lie within 5 mm."""
    p = torch.tensor([0.0, 0.0, 0.0, 0.1, 0.6, 1.0, 1.0, 0.96, 0.3, 0.0])
    found = numbers(packed(p).reshape(10, 1, 1), None, (2.0, 2.0, 10.0))
    assert found.volume_ml == pytest.approx(4 * 0.04)
    assert found.volume_low_ml == pytest.approx(3 * 0.04)
    assert found.volume_high_ml == pytest.approx(6 * 0.04)
    assert found.expected_dice == pytest.approx(2 * 3.56 / (3.96 + 4), abs=1e-4)
    entropies = [-q * np.log2(q) - (1 - q) * np.log2(1 - q) for q in (0.1, 0.6, 0.96, 0.3)]
    assert found.uncertainty == pytest.approx(sum(entropies) / 8, abs=1e-4), (
        "the mask, two voxels before, two after"
    )
    assert np.isnan(found.variance)


def test_numbers_of_a_volume_are_the_plain_formulas(slab):
    p, variance = smooth(), torch.rand(20, 24, 13) / 4
    spacing = (0.9, 1.3, 2.2)
    found = numbers(packed(p), packed(4 * variance), spacing)
    values, mask = p.double().numpy(), (p > 0.5).numpy()
    near = distance_transform_edt(~mask, sampling=spacing) <= MARGIN
    entropy = -values * np.log2(values) - (1 - values) * np.log2(1 - values)
    assert found.volume_ml == pytest.approx(mask.sum() * np.prod(spacing) / 1000)
    assert found.expected_dice == pytest.approx(
        2 * values[mask].sum() / (values.sum() + mask.sum()), rel=1e-4
    )
    assert found.uncertainty == pytest.approx(entropy[near].mean(), rel=1e-4)
    assert found.variance == pytest.approx(variance.numpy()[near].mean(), rel=1e-4)


def test_near_is_within_the_margin_of_the_mask(slab):
    p = torch.where(
        torch.rand(30, 28, 17, generator=torch.Generator().manual_seed(1)) > 0.998, 0.9, 0.2
    )
    p[:, :, 12:] = 0.2
    spacing = (0.9, 1.3, 2.2)
    expected = distance_transform_edt((p <= 0.5).numpy(), sampling=spacing) <= MARGIN
    found = np.concatenate(
        [nearby(packed(p), part, spacing) for part in level.parts(p.shape)], axis=2
    )
    np.testing.assert_array_equal(found, expected)


def test_an_empty_mask_has_a_volume_and_nothing_else():
    found = numbers(packed(torch.full((4, 4, 4), 0.2)), None, (1.0, 1.0, 1.0))
    assert (found.volume_ml, found.volume_low_ml) == (0, 0)
    assert found.volume_high_ml == pytest.approx(0.064), "but it may have been missed"
    assert np.isnan(found[3:]).all()


def test_the_interval_holds_nine_of_ten_volumes_when_borders_move_together():
    """Draw the true mask as it is assumed: all voxels whose probability exceeds one uniform number."""
    p = smooth((40, 40, 20))
    low, high = interval(level.counted(packed(p)))
    volumes = np.array([(p > u).sum() for u in DRAW.uniform(size=2000)])
    assert ((volumes >= low) & (volumes <= high)).mean() == pytest.approx(0.9, abs=0.02)
