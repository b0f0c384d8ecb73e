"""The average of a network over time."""

from typing import Any

from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel


def averaged(network: nn.Module, decay: float) -> AveragedModel:
    """The network's average over time, theta^(n-1) in a slower form: follows it by 1 - decay at each update.

    A young average looks back over about a ninth of what it has seen, so that it soon forgets the first weights.
    """

    def follow(average: Any, current: Any, seen: Tensor | int) -> None:
        share = max(1 - decay, 9 / (float(seen) + 9))
        for mine, theirs in zip(average, current, strict=True):
            mine.lerp_(theirs.to(mine), share)

    return AveragedModel(network, multi_avg_fn=follow).requires_grad_(False)
