"""Steps of gradient descent within a training step."""

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn

from segpl.em.tensors import Scalar

SMALLEST_NORM = 1e-12
"""A gradient below this norm counts as none."""


def descend(model: nn.Module, loss: Scalar, share: float) -> None:
    """Move the weights that the loss depends on downhill by a share of their size, in place.

    Each tensor of weights moves along its gradient by `share` of its own norm, as in layer-wise
    adaptive scaling (You et al., 2017), so the step depends on no scale of loss or network.
    Processes that share a batch take the mean of their gradients, so their models stay the same.
    """
    weights = list(model.parameters())
    gradients = torch.autograd.grad(loss, weights, allow_unused=True)
    with torch.no_grad():
        for weight, gradient in zip(weights, gradients, strict=True):
            if gradient is not None:
                slope = mean_over_processes(gradient)
                direction = slope / slope.norm().clamp(min=SMALLEST_NORM)
                weight.sub_(share * weight.norm() * direction)
    # In mixed precision torch keeps the weights in half precision, and would go on with the old.
    torch.clear_autocast_cache()


def mean_over_processes(value: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """The mean over all processes, without gradients; the value itself if there is only one."""
    if not (dist.is_available() and dist.is_initialized()):
        return value
    total = value.clone()
    dist.all_reduce(total)
    return total / dist.get_world_size()
