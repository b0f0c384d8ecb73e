"""phi: its initial outputs, its pooling and its size."""

import pytest
import torch
from torch.nn.functional import adaptive_avg_pool3d

from segpl.networks.threshold_head import ThresholdHead
from segpl.networks.unet import UNet


@pytest.mark.parametrize("patch", [(16, 16), (16, 16, 3)])
def test_eq_5_phi_starts_at_the_given_outputs(patch):
    phi = ThresholdHead(UNet(1, 3, 8, patch), initial_outputs=(0.3, -2.0))
    logit_mu, log_sigma = phi(torch.randn(4, 8, *patch))
    torch.testing.assert_close(logit_mu, torch.full((4, 3), 0.3), atol=0.1, rtol=0)
    torch.testing.assert_close(log_sigma, torch.full((4, 3), -2.0), atol=0.1, rtol=0)


@pytest.mark.parametrize("size", [(16, 16, 3), (20, 22, 13)])
def test_eq_5_phi_reads_averages_on_a_grid(size):
    phi = ThresholdHead(UNet(1, 2, 8, (16, 16, 4)), initial_outputs=(0.3, -1.0))
    features = torch.randn(2, 8, *size)
    grid = [min(8, length) for length in size]
    maps = phi.block(adaptive_avg_pool3d(features, grid))
    for output, layer in zip(phi(features), phi.numbers, strict=True):
        torch.testing.assert_close(output, layer(maps).mean((2, 3, 4)))


def test_phi_has_a_few_thousand_parameters_at_most():
    phi = ThresholdHead(UNet(1, 1, 8, (16, 16, 3)), initial_outputs=(0.0, 0.0))
    convolution = 8 * 8 * 27 + 8
    norm = 2 * 8
    two_outputs = 2 * (8 + 1)
    parameters = sum(weight.numel() for weight in phi.parameters())
    assert parameters == convolution + norm + two_outputs


def test_phi_without_outputs_has_no_weights():
    phi = ThresholdHead(UNet(1, 1, 8, (16, 16)), initial_outputs=())
    assert not list(phi.parameters())
    assert phi(torch.randn(2, 8, 16, 16)) == []
