import pytest
import torch
from scipy.stats import truncnorm
from torch.distributions import Normal

from segpl.networks import ThresholdPosterior, UNet, quantile, strides


def test_thin_volumes_are_halved_in_their_plane_alone():
    assert strides((176, 176, 3)) == [(1, 1, 1)] + 4 * [(2, 2, 1)]


def test_small_patches_get_a_shallower_network():
    assert strides((16, 16)) == [(1, 1), (2, 2), (2, 2)]


def test_unet_is_head_of_features(patch, network, batch):
    theta = network()
    features = theta.features(batch.x_l)
    assert features.shape == (2, theta.channels, *patch)
    assert torch.equal(theta(batch.x_l), theta.head(features))


def test_unet_learns_from_odd_numbers_of_slices():
    assert UNet(1, 1, 4, (32, 32, 5))(torch.randn(1, 1, 32, 32, 5)).shape == (1, 1, 32, 32, 5)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_eq_5_phi_starts_at_its_prior(dimensions):
    phi = ThresholdPosterior(channels=8, regions=3, dimensions=dimensions, mean=0.4, deviation=0.1)
    posterior = phi(torch.randn(4, 8, *[16, 16, 3][:dimensions]))
    assert posterior.mean.shape == (4, 3)
    torch.testing.assert_close(posterior.mean, torch.full((4, 3), 0.4), atol=0.02, rtol=0)
    torch.testing.assert_close(posterior.stddev, torch.full((4, 3), 0.1), atol=0.02, rtol=0)


def test_phi_has_a_few_thousand_parameters_at_most():
    phi = ThresholdPosterior(channels=8, regions=1, dimensions=3, mean=0.4, deviation=0.1)
    by_hand = (8 * 8 * 27 + 8) + 2 * 8 + 2 * (8 + 1)
    assert sum(weight.numel() for weight in phi.parameters()) == by_hand


@pytest.mark.parametrize(("mean", "deviation"), [(0.5, 0.1), (0.4, 0.3), (0.9, 0.2), (0.05, 0.4)])
def test_quantiles_are_those_of_a_normal_cut_to_0_and_1(mean, deviation):
    u = torch.tensor([[0.01, 0.3, 0.5, 0.77, 0.99]], dtype=torch.float64)
    ours = quantile(Normal(torch.full_like(u, mean), torch.full_like(u, deviation)), u)
    theirs = truncnorm.ppf(u.numpy(), -mean / deviation, (1 - mean) / deviation, loc=mean, scale=deviation)
    torch.testing.assert_close(ours, torch.from_numpy(theirs), atol=1e-4, rtol=0)
