import pytest
import torch

from segpl.benchmark.reference import as_monai_gives_it
from segpl.em.average import averaged
from segpl.networks.threshold_head import ThresholdPosterior
from segpl.networks.unet import RARE, UNet, returned, strides


def test_thin_volumes_are_halved_in_their_plane_alone():
    assert strides((176, 176, 3)) == [(1, 1, 1)] + 4 * [(2, 2, 1)]


def test_small_patches_get_a_shallower_network():
    assert strides((16, 16)) == [(1, 1), (2, 2), (2, 2)]


def test_unet_equals_the_network_as_monai_gives_it_gradients_too(patch, network, batch):
    theta = network()
    plain = as_monai_gives_it(theta, batch.x_l.shape[1])
    torch.testing.assert_close(theta(batch.x_l), plain(batch.x_l), atol=1e-5, rtol=1e-5)
    for one in (theta, plain):
        one(batch.x_l).square().mean().backward()
    first = theta.body.downsample.conv1.conv.weight.grad
    expected = plain.skip_layers.downsample.conv1.conv.weight.grad
    torch.testing.assert_close(returned(first), expected, atol=1e-5, rtol=1e-4)
    norms = [one.downsample.norm1.weight.grad for one in (theta.body, plain.skip_layers)]
    torch.testing.assert_close(*norms, atol=1e-5, rtol=1e-4)


def test_unet_is_head_of_last_block_of_trunk(patch, network, batch):
    theta = network()
    features = theta.features(batch.x_l)
    assert features.shape == (2, theta.channels, *patch)
    torch.testing.assert_close(features, theta.last_block(theta.trunk(batch.x_l)))
    assert torch.equal(theta(batch.x_l), theta.head(features))


def test_encode_ends_at_the_bottom(network, batch):
    theta = network()
    assert theta.encode(batch.x_l).shape[:2] == (2, theta.widths[-1])


def test_unet_learns_from_odd_numbers_of_slices():
    assert UNet(1, 1, 4, (32, 32, 5))(torch.randn(1, 1, 32, 32, 5)).shape == (1, 1, 32, 32, 5)


@pytest.mark.parametrize("patch", [(16, 16), (16, 16, 3)])
def test_eq_5_phi_starts_where_it_is_told(patch):
    theta = UNet(1, 3, 8, patch)
    numbers = ThresholdPosterior(theta, starts=(0.3, -2.0))(torch.randn(4, 8, *patch))
    for number, start in zip(numbers, (0.3, -2.0), strict=True):
        torch.testing.assert_close(number, torch.full((4, 3), start), atol=0.1, rtol=0)


def test_phi_has_a_few_thousand_parameters_at_most():
    phi = ThresholdPosterior(UNet(1, 1, 8, (16, 16, 3)), starts=(0.0, 0.0))
    by_hand = (8 * 8 * 27 + 8) + 2 * 8 + 2 * (8 + 1)
    assert sum(weight.numel() for weight in phi.parameters()) == by_hand


@pytest.mark.parametrize("patch", [(32, 32), (32, 32, 8)])
def test_a_fresh_network_expects_little_foreground(patch):
    network = UNet(1, 2, 8, patch)
    nothing = torch.zeros(1, 8, *patch)
    torch.testing.assert_close(network.head(nothing).sigmoid(), torch.full((1, 2, *patch), RARE))


@pytest.mark.parametrize("size", [(16, 16, 3), (20, 22, 13)])
def test_eq_5_phi_reads_averages_over_a_grid(size):
    phi = ThresholdPosterior(UNet(1, 2, 8, (16, 16, 4)), starts=(0.3, -1.0))
    features = torch.randn(2, 8, *size)
    maps = phi.block(torch.nn.functional.adaptive_avg_pool3d(features, [min(8, n) for n in size]))
    for number, layer in zip(phi(features), phi.numbers, strict=True):
        torch.testing.assert_close(number, layer(maps).mean((2, 3, 4)))


def test_phi_without_numbers_has_no_weights():
    phi = ThresholdPosterior(UNet(1, 1, 8, (16, 16)), starts=())
    assert not list(phi.parameters())
    assert phi(torch.randn(2, 8, 16, 16)) == []


def test_the_average_follows_by_the_share_it_should():
    network = torch.nn.Linear(1, 1)
    average = averaged(network, decay=0.9)
    for value in (
        1.0,
        2.0,
        6.0,
    ):  # while young, by nine parts against what it has seen: 1, 9/10 and 9/11
        torch.nn.init.constant_(network.weight, value)
        average.update_parameters(network)
    assert average.module.weight.item() == pytest.approx(1.9 + 9 / 11 * (6 - 1.9))
    for _ in range(100):
        average.update_parameters(network)
    before = average.module.weight.item()
    torch.nn.init.constant_(network.weight, before + 1)
    average.update_parameters(network)
    assert average.module.weight.item() == pytest.approx(before + 0.1)
    assert not any(weight.requires_grad for weight in average.parameters())
