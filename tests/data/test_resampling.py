import pytest
import torch

from segpl.data.resampling import resample, resample_label


@pytest.mark.parametrize("size", [52, 36, 28])
def test_thin_structures_keep_their_share_of_the_volume(size):
    sheets = torch.zeros(1, 40, 40, 40, dtype=torch.bool)
    sheets[0, ::4] = True
    share = sheets.float().mean()
    resampled_share = resample_label(sheets, (size, size, size)).float().mean()
    assert resampled_share / share == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("depth", [20, 21])
@pytest.mark.parametrize("position", range(12, 24))
def test_axes_that_shrink_are_averaged_though_another_grows(position, depth):
    """A thin sheet keeps a third of its brightness; sampled, it would be whole or gone."""
    image = torch.zeros(1, 36, 36, 20)
    image[:, position] = 1
    resampled = resample(image, (12, 12, depth))
    assert resampled.sum(1).mean().item() == pytest.approx(1 / 3, abs=1e-5)
    assert resampled.max().item() == pytest.approx(1 / 3, abs=1e-5)


def test_a_grid_of_the_same_shape_changes_nothing():
    image = torch.rand(2, 4, 5, 6)
    assert resample(image, (4, 5, 6)) is image
    assert resample_label(image > 0.5, (4, 5, 6)).equal(image > 0.5)
