"""The average of a network's weights over time."""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

MEMORY_OF_YOUNG_AVERAGE = 9
"""After n updates the average moves by at least 9 / (n + 9) towards the network.

It therefore looks back over about a ninth of its updates and soon forgets the first weights.
"""


def average_over_time(network: nn.Module, decay: float) -> AveragedModel:
    """An exponential moving average of the network's weights: a smooth form of theta^(n-1).

    `update_parameters(network)` moves each averaged weight by 1 - decay of its distance to the
    network's weight; early in training by more, see `MEMORY_OF_YOUNG_AVERAGE`. The average starts
    as a copy of the network and takes no gradients.
    """

    def update(
        averaged_weights: Sequence[Tensor], weights: Sequence[Tensor], updates: Tensor | int
    ) -> None:
        young = MEMORY_OF_YOUNG_AVERAGE / (float(updates) + MEMORY_OF_YOUNG_AVERAGE)
        step = max(1 - decay, young)
        for averaged, weight in zip(averaged_weights, weights, strict=True):
            averaged.lerp_(weight.to(averaged), step)

    average = AveragedModel(network, multi_avg_fn=update)
    return average.requires_grad_(False)
