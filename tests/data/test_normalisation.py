import numpy as np
import pytest

from segpl.data.normalisation import normalise


def test_a_background_of_zeros_stays_0():
    values = np.zeros((8, 4, 4), np.float32)
    values[3:5] = np.arange(1, 33).reshape(2, 4, 4)
    result = normalise(values)
    assert (result[:3] == 0).all()
    assert result[3:5].mean() == pytest.approx(0, abs=1e-5)
    assert result[3:5].std() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("mean", "share_of_zeros"), [(6, 0.01), (-2, 0.5)], ids=["few zeros", "mostly zeros"]
)
def test_the_order_of_dark_voxels_is_kept(mean, share_of_zeros):
    """The darkest voxels of a noisy 8-bit picture are 0, but they are no background."""
    noise = np.random.default_rng(0).normal(mean, 6, (64, 64, 1))
    values = np.clip(noise.round(), 0, 255).astype(np.float32)
    assert (values == 0).mean() > share_of_zeros
    greys, first_indices = np.unique(values, return_index=True)
    assert len(greys) > 10
    normalised_greys = normalise(values).ravel()[first_indices]
    assert (np.diff(normalised_greys) > 0).all()


def test_without_a_background_all_voxels_count():
    values = np.random.default_rng(0).normal(-800, 50, (8, 8, 8)).astype(np.float32)
    assert normalise(values).std() == pytest.approx(1, abs=1e-4)


def test_water_in_ct_is_tissue():
    values = np.random.default_rng(0).normal(0, 30, (16, 16, 16)).round().astype(np.float32)
    assert (values == 0).mean() > 0.01
    result = normalise(values)
    below = result[values == -1].mean()
    water = result[values == 0].mean()
    above = result[values == 1].mean()
    assert water == pytest.approx((below + above) / 2, abs=1e-5)


def test_a_constant_image_has_finite_values():
    assert np.isfinite(normalise(np.full((3, 3, 3), 7, np.float32))).all()
