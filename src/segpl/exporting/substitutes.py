"""Operations that exchange formats do not know, said in ones that they do."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import pi, sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Distribution
from torch.nn.functional import adaptive_avg_pool2d, adaptive_avg_pool3d, softplus
from torch.overrides import TorchFunctionMode

from segpl.em.thresholds import EDGE, BetaPosterior

POINTS = 2048
"""Of the grid on which a Beta distribution is added up."""


def beta_quantile(self: BetaPosterior, level: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
    """Beta's quantile without scipy: its density on a grid of logits, added up and read off at the level.

    The density of a logit u is proportional to t^a (1 - t)^b: smooth for all shapes, with a deviation near
    (1/a + 1/b)^(1/2) and tails that fall as exp(a u) and exp(-b u).
    """
    a, b = self.beta.concentration1[..., None], self.beta.concentration0[..., None]
    middle, deviation = (a / b).log(), (1 / a + 1 / b).sqrt()
    low, high = middle - 12 * deviation - 25 / a, middle + 12 * deviation + 25 / b
    steps = (
        torch.ones_like(a).expand(*a.shape[:-1], POINTS).cumsum(-1) / POINTS
    )  # made of a: it lives where a lives
    u = low + (high - low) * steps
    mass = (-a * softplus(-u) - b * softplus(u)).softmax(-1)
    below = mass.cumsum(-1) - mass / 2
    place = (below < level[..., None]).sum(-1, keepdim=True).clamp(1, POINTS - 1)
    (u_0, u_1), (p_0, p_1) = (
        [each.gather(-1, place - 1), each.gather(-1, place)] for each in (u, below)
    )
    found = u_0 + (u_1 - u_0) * (level[..., None] - p_0) / (p_1 - p_0)
    return found[..., 0].sigmoid().clamp(EDGE, 1 - EDGE)


def erfinv(y: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The inverse of the error function: Winitzki's approximation, then two steps of Newton's method."""
    tail = (1 - y * y).log()
    bend = 2 / (pi * 0.147) + tail / 2
    x = y.sign() * ((bend * bend - tail / 0.147).sqrt() - bend).sqrt()
    for _ in range(2):
        x = x - (x.erf() - y) * (sqrt(pi) / 2) * (x * x).exp()
    return x


def average_pool(
    x: Float[Tensor, "B C *space"], size: Sequence[int | Tensor]
) -> Float[Tensor, "B C *small"]:
    """Adaptive average pooling as a product with a matrix along each axis; in a trace, sizes are tensors."""
    for axis, (before, after) in enumerate(
        zip(map(int, x.shape[2:]), map(int, size), strict=True), start=2
    ):
        shares = torch.zeros(before, after)
        for place in range(after):
            start, end = place * before // after, -(-(place + 1) * before // after)
            shares[start:end, place] = 1 / (end - start)
        x = (x.transpose(axis, -1) @ shares).transpose(axis, -1)
    return x


def new_tensor(like: Tensor, values: Sequence[float]) -> Float[Tensor, " N"]:
    """A tensor of these numbers made of the other one, so that it lives where that lives, whatever the device."""
    return torch.stack([like.new_full((), value) for value in values])


PORTABLE: dict[Callable, Callable] = {Tensor.new_tensor: new_tensor}
"""What binds a program to the device that it was made on."""
ONNX: dict[Callable, Callable] = {
    **PORTABLE,
    torch.erfinv: erfinv,
    adaptive_avg_pool2d: average_pool,
    adaptive_avg_pool3d: average_pool,
}
"""What ONNX has no operation for."""


class Substituting(TorchFunctionMode):
    """While it is entered, torch takes other functions in place of some of its own."""

    def __init__(self, substitutes: dict[Callable, Callable]):
        super().__init__()
        self.substitutes = substitutes

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.substitutes.get(func, func)(*args, **(kwargs or {}))


@contextmanager
def by_torch_alone() -> Iterator[None]:
    """While it is entered, predictions are made of torch's operations alone, and distributions trust their numbers."""
    quantile, validates = BetaPosterior.quantile, Distribution._validate_args
    BetaPosterior.quantile = beta_quantile  # type: ignore[method-assign]
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        BetaPosterior.quantile = quantile  # type: ignore[method-assign]
        Distribution.set_default_validate_args(validates)
