"""theta: the U-Net and its parts."""

import pytest
import torch

from segpl.benchmark.reference import monai_reference
from segpl.networks.unet import INITIAL_FOREGROUND, UNet, slices_last, strides


def test_thin_volumes_are_halved_in_their_plane_alone():
    assert strides((176, 176, 3)) == [(1, 1, 1)] + 4 * [(2, 2, 1)]


def test_small_patches_get_a_shallower_network():
    assert strides((16, 16)) == [(1, 1), (2, 2), (2, 2)]


def test_unet_has_the_output_of_monais_network(network, batch):
    theta = network()
    monai = monai_reference(theta, batch.x_l.shape[1])
    torch.testing.assert_close(theta(batch.x_l), monai(batch.x_l), atol=1e-5, rtol=1e-5)


def test_unet_has_the_gradients_of_monais_network(network, batch):
    theta = network()
    monai = monai_reference(theta, batch.x_l.shape[1])
    theta(batch.x_l).square().mean().backward()
    monai(batch.x_l).square().mean().backward()
    first_level = theta.body.downsample
    expected = monai.skip_layers.downsample
    kernel_gradient = slices_last(first_level.conv1.conv.weight.grad)
    torch.testing.assert_close(
        kernel_gradient, expected.conv1.conv.weight.grad, atol=1e-5, rtol=1e-4
    )
    torch.testing.assert_close(
        first_level.norm1.weight.grad, expected.norm1.weight.grad, atol=1e-5, rtol=1e-4
    )


def test_unet_is_head_of_last_block_of_trunk(patch, network, batch):
    theta = network()
    features = theta.features(batch.x_l)
    assert features.shape == (2, theta.channels, *patch)
    torch.testing.assert_close(features, theta.last_block(theta.trunk(batch.x_l)))
    assert torch.equal(theta(batch.x_l), theta.head(features))


def test_encode_returns_the_bottleneck(network, batch):
    theta = network()
    assert theta.encode(batch.x_l).shape[:2] == (2, theta.widths[-1])


def test_unet_takes_odd_numbers_of_slices():
    theta = UNet(1, 1, 4, (32, 32, 5))
    assert theta(torch.randn(1, 1, 32, 32, 5)).shape == (1, 1, 32, 32, 5)


@pytest.mark.parametrize("patch", [(32, 32), (32, 32, 8)])
def test_a_new_network_expects_little_foreground(patch):
    theta = UNet(1, 2, 8, patch)
    p = theta.head(torch.zeros(1, 8, *patch)).sigmoid()
    torch.testing.assert_close(p, torch.full((1, 2, *patch), INITIAL_FOREGROUND))
