"""The average of a network over time."""

import pytest
import torch

from segpl.em.average import average_over_time


def set_weight(network, value):
    torch.nn.init.constant_(network.weight, value)


def test_a_young_average_moves_by_9_against_the_number_of_updates():
    """By 1, 9/10 and 9/11 of the distance at the first three updates."""
    network = torch.nn.Linear(1, 1)
    average = average_over_time(network, decay=0.9)
    for weight in (1.0, 2.0, 6.0):
        set_weight(network, weight)
        average.update_parameters(network)
    after_two = 1 + 9 / 10 * (2 - 1)
    after_three = after_two + 9 / 11 * (6 - after_two)
    assert average.module.weight.item() == pytest.approx(after_three)


def test_an_old_average_moves_by_1_minus_decay():
    network = torch.nn.Linear(1, 1)
    average = average_over_time(network, decay=0.9)
    for _ in range(100):
        average.update_parameters(network)
    before = average.module.weight.item()
    set_weight(network, before + 1)
    average.update_parameters(network)
    assert average.module.weight.item() == pytest.approx(before + 0.1)


def test_an_average_takes_no_gradients():
    average = average_over_time(torch.nn.Linear(1, 1), decay=0.9)
    assert not any(weight.requires_grad for weight in average.parameters())
