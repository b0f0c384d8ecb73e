"""Gradient descent within a training step."""

import torch
from torch import nn

from segpl.em.refinement import descend


def linear():
    """y = 3 a + 4 b, so that the weights have the norm 5."""
    layer = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[3.0, 4.0]]))
    return layer


def test_a_tensor_of_weights_moves_downhill_by_a_share_of_its_norm():
    layer = linear()
    loss = layer(torch.tensor([2.0, 0.0])).sum()
    descend(layer, loss, share=0.1)
    torch.testing.assert_close(layer.weight.data, torch.tensor([[2.5, 4.0]]))


def test_weights_that_the_loss_does_not_depend_on_stay():
    layers = nn.ModuleList([linear(), linear()])
    descend(layers, layers[0](torch.ones(2)).sum(), share=0.1)
    assert torch.equal(layers[1].weight.data, torch.tensor([[3.0, 4.0]]))


def test_without_a_slope_nothing_moves():
    layer = linear()
    descend(layer, layer(torch.zeros(2)).sum(), share=0.1)
    assert torch.equal(layer.weight.data, torch.tensor([[3.0, 4.0]]))


def test_mixed_precision_sees_the_moved_weights():
    layer = linear()
    x = torch.tensor([2.0, 0.0])
    with torch.autocast("cpu", torch.bfloat16):
        before = layer(x)
        descend(layer, before.sum(), share=0.1)
        after = layer(x)
    assert before.item() == 6
    assert after.item() == 5
