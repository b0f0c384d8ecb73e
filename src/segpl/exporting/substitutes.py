"""Substitutes for operations that exchange formats do not support, made of ones that they do."""

import warnings
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

from segpl.em.posteriors import EDGE, BetaPosterior

POINTS = 2048
"""Points of the grid on which a Beta distribution is summed."""
WINITZKI = 0.147
"""The constant of Winitzki's approximation of the inverse error function."""


def beta_quantile(self: BetaPosterior, level: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
    """The quantile of a Beta distribution without scipy.

    The density is summed on a grid of logits, and the sum is interpolated at `level`. With
    t = sigmoid(u), the density of a logit u is proportional to t^a (1 - t)^b, which is smooth for
    all a and b.
    """
    a = self.beta.concentration1[..., None]
    b = self.beta.concentration0[..., None]
    level = level[..., None]
    u = _logit_grid(a, b)
    log_density = -a * softplus(-u) - b * softplus(u)
    mass = log_density.softmax(-1)
    cumulative = mass.cumsum(-1) - mass / 2

    points_below = (cumulative < level).sum(-1, keepdim=True)
    right = points_below.clamp(1, POINTS - 1)
    left = right - 1
    u_0 = u.gather(-1, left)
    u_1 = u.gather(-1, right)
    p_0 = cumulative.gather(-1, left)
    p_1 = cumulative.gather(-1, right)
    logit = u_0 + (u_1 - u_0) * (level - p_0) / (p_1 - p_0)
    quantile = logit[..., 0].sigmoid()
    return quantile.clamp(EDGE, 1 - EDGE)


def _logit_grid(a: Float[Tensor, "B K 1"], b: Float[Tensor, "B K 1"]) -> Float[Tensor, "B K N"]:
    """POINTS logits that cover nearly all of Beta(a, b).

    The standard deviation of a logit is near (1/a + 1/b)^(1/2), and the tails fall as exp(a u) and
    exp(-b u).
    """
    centre = (a / b).log()
    deviation = (1 / a + 1 / b).sqrt()
    low = centre - 12 * deviation - 25 / a
    high = centre + 12 * deviation + 25 / b
    # Derived from `a`, so that a traced program makes it on whatever device `a` is on.
    ones = torch.ones_like(a).expand(*a.shape[:-1], POINTS)
    steps = ones.cumsum(-1) / POINTS
    return low + (high - low) * steps


def erfinv(y: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The inverse error function: Winitzki's approximation and two steps of Newton's method."""
    log_term = (1 - y * y).log()
    offset = 2 / (pi * WINITZKI) + log_term / 2
    root = (offset * offset - log_term / WINITZKI).sqrt()
    x = y.sign() * (root - offset).sqrt()
    for _ in range(2):
        error = x.erf() - y
        x = x - error * (sqrt(pi) / 2) * (x * x).exp()
    return x


def average_pool(
    x: Float[Tensor, "B C *space"],
    size: Sequence[int | Tensor],
) -> Float[Tensor, "B C *small"]:
    """Adaptive average pooling as a product with a matrix along each axis."""
    # In a trace, sizes are tensors: int() makes constants of them.
    old_sizes = [int(length) for length in x.shape[2:]]
    new_sizes = [int(length) for length in size]
    for index, (old_size, new_size) in enumerate(zip(old_sizes, new_sizes, strict=True)):
        axis = index + 2
        matrix = _pooling_matrix(old_size, new_size)
        pooled = x.transpose(axis, -1) @ matrix
        x = pooled.transpose(axis, -1)
    return x


def _pooling_matrix(old_size: int, new_size: int) -> Float[Tensor, "old new"]:
    """The share of each old voxel in each new one, with the bins of torch's adaptive pooling."""
    shares = torch.zeros(old_size, new_size)
    for index in range(new_size):
        start = index * old_size // new_size
        end = -(-(index + 1) * old_size // new_size)  # rounded up
        shares[start:end, index] = 1 / (end - start)
    return shares


def new_tensor(like: Tensor, values: Sequence[float]) -> Float[Tensor, " N"]:
    """A tensor of `values` that a traced program makes on the device of `like`."""
    return torch.stack([like.new_full((), value) for value in values])


PORTABLE: dict[Callable, Callable] = {Tensor.new_tensor: new_tensor}
"""Substitutes for operations that bind a program to the device that it was traced on."""
ONNX: dict[Callable, Callable] = {
    **PORTABLE,
    torch.erfinv: erfinv,
    adaptive_avg_pool2d: average_pool,
    adaptive_avg_pool3d: average_pool,
}
"""Substitutes for operations that ONNX does not have."""


class Substituting(TorchFunctionMode):
    """While it is active, torch calls the substitutes in place of its own functions."""

    def __init__(self, substitutes: dict[Callable, Callable]):
        super().__init__()
        self.substitutes = substitutes

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        function = self.substitutes.get(func, func)
        return function(*args, **(kwargs or {}))


@contextmanager
def torch_operations_only() -> Iterator[None]:
    """Meanwhile, predictions consist of torch operations alone: no scipy, no argument checks."""
    quantile = BetaPosterior.quantile
    validate_args = Distribution._validate_args
    BetaPosterior.quantile = beta_quantile  # type: ignore[method-assign]
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        BetaPosterior.quantile = quantile  # type: ignore[method-assign]
        Distribution.set_default_validate_args(validate_args)


@contextmanager
def tracing(substitutes: dict[Callable, Callable]) -> Iterator[None]:
    """Meanwhile, a trace sees only what can be exported.

    Its warnings are not shown, because every program is verified after it is traced.
    """
    with torch_operations_only(), Substituting(substitutes), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
