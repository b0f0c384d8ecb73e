"""The threshold at which pseudo-labels are as large as labels."""

import pytest
import torch

from segpl.em.sizes import HIGHEST, LOWEST, SizeMatch


def probabilities_from_0_to_1():
    """One image with one region, in which 1 - t of the voxels exceed any threshold t."""
    return ((torch.arange(1000) + 0.5) / 1000).reshape(1, 1, 10, 100)


def label_with_share(share):
    label = torch.zeros(1, 1, 10, 100)
    label.flatten()[: round(1000 * share)] = 1
    return label


@pytest.mark.parametrize(
    ("share", "threshold"),
    [
        pytest.param(0.29, 0.71, id="pseudo-labels at 0.5 would be too large: T rises"),
        pytest.param(0.8, LOWEST, id="too small: T stays, so that nothing is invented"),
        pytest.param(0.001, HIGHEST, id="hardly any label: pseudo-labels do not vanish"),
    ],
)
def test_the_threshold_matches_the_size_within_its_limits(share, threshold):
    sizes = SizeMatch(regions=1)
    sizes.update(label_with_share(share), probabilities_from_0_to_1())
    assert sizes.threshold().tolist() == pytest.approx([threshold])


def test_each_region_has_a_threshold_of_its_own():
    sizes = SizeMatch(regions=2)
    labels = torch.cat([label_with_share(0.29), label_with_share(0.09)], dim=1)
    sizes.update(labels, probabilities_from_0_to_1().expand(1, 2, 10, 100))
    assert sizes.threshold().tolist() == pytest.approx([0.71, 0.91])


def test_the_sizes_are_running_means_that_begin_with_the_first_step():
    sizes = SizeMatch(regions=1)
    for share in (0.1, 0.3):
        sizes.update(label_with_share(share), probabilities_from_0_to_1())
    assert sizes.label_share.item() == pytest.approx(0.2)
    for _ in range(500):
        sizes.update(label_with_share(0.4), probabilities_from_0_to_1())
    assert sizes.label_share.item() == pytest.approx(0.4, abs=1e-3)


def test_a_resumed_run_goes_on_with_the_means():
    sizes = SizeMatch(regions=1)
    sizes.update(label_with_share(0.29), probabilities_from_0_to_1())
    resumed = SizeMatch(regions=1)
    resumed.load_state_dict(sizes.state_dict())
    assert torch.equal(resumed.threshold(), sizes.threshold())
    assert resumed.updates == 1
