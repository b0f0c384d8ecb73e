"""How far probabilities can be trusted: pure functions of them and the truth, one number per region."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor
from torch.nn.functional import binary_cross_entropy

EPSILON = 0.5 / 65535
"""Half a step of the 16 bits that probabilities are held in: a certain mistake costs 11.8 nats."""
EDGES = torch.arange(1, 20, dtype=torch.float64) / 20


Mistakes = list[Float64[np.ndarray, " voxels"]]
"""Of each region, how many mistakes to expect among its n most confident voxels, for every n from 1."""


class Reliability(NamedTuple):
    """Voxels counted in 20 equal bins of p. Sums, so cases can be added up.

    An edge belongs to the surer bin: the lower one below 0.5, the upper one above, so that p and 1 - p fold together.
    p = 0.5, which no mask contains, lies among the ten bins of the background.
    """

    voxels: Float64[Tensor, "K 20"]
    confidence: Float64[Tensor, "K 20"]
    """The sum of p."""
    foreground: Float64[Tensor, "K 20"]
    """How many voxels are truly foreground."""


def brier(p: Float[Tensor, "K *space"], truth: Bool[Tensor, "K *space"]) -> Float[Tensor, " K"]:
    """The mean of (p - y)^2 over the voxels (the equation of the appendix): 0 is best, 1 is worst."""
    return (p - truth.to(p.dtype)).square().flatten(1).mean(1)


def negative_log_likelihood(
    p: Float[Tensor, "K *space"], truth: Bool[Tensor, "K *space"]
) -> Float[Tensor, " K"]:
    """The mean binary cross-entropy over the voxels, in nats: 0 is best."""
    p = p.clamp(EPSILON, 1 - EPSILON)
    return binary_cross_entropy(p, truth.to(p.dtype), reduction="none").flatten(1).mean(1)


def reliability(p: Float[Tensor, "K *space"], truth: Bool[Tensor, "K *space"]) -> Reliability:
    """Count the voxels of one case: what a reliability diagram shows and calibration errors are made of."""
    return Reliability(
        *torch.stack([_counted(*region) for region in zip(p, truth, strict=True)], dim=1)
    )


def _counted(p: Float[Tensor, "*space"], truth: Bool[Tensor, "*space"]) -> Float64[Tensor, "3 20"]:
    edges, flat = EDGES.to(p), p.flatten()
    bins = torch.bucketize(flat, edges).where(flat <= 0.5, torch.bucketize(flat, edges, right=True))
    foreground = torch.bincount(bins[truth.flatten()], minlength=20)
    return torch.stack(
        [
            torch.bincount(bins, minlength=20),
            torch.bincount(bins, p.flatten().double(), 20),
            foreground,
        ]
    )


def ece(counted: Reliability) -> Float[Tensor, " K"]:
    """Expected calibration error of the label that is given: confidence max(p, 1 - p) against how often it is right.

    The bins below 0.5 fold onto those above, which makes ten bins of confidence. 0 is best.
    """
    below, above = (counted.confidence - counted.foreground).split(10, dim=1)
    # Below 0.5 the label is background: (1 - p) - (1 - y), the same gap with the other sign.
    return (above - below.flip(1)).abs().sum(1) / counted.voxels.sum(1)


def classwise_ece(counted: Reliability) -> Float[Tensor, " K"]:
    """Expected calibration error of the foreground: its probability against its frequency in each bin. 0 is best."""
    return (counted.confidence - counted.foreground).abs().sum(1) / counted.voxels.sum(1)


def mistakes(p: Float[Tensor, "K *space"], truth: Bool[Tensor, "K *space"]) -> Mistakes:
    """What `aurc` and `risk_coverage` are made of: voxels in the order of their confidence max(p, 1 - p).

    Voxels that tie have no order: they count by their expectation.
    """
    return [_mistakes(*region) for region in zip(p, truth, strict=True)]


def aurc(made: Mistakes) -> Float[Tensor, " K"]:
    """Area under the risk-coverage curve: the share of mistakes among the n most confident voxels, meaned over n.

    0 is best.
    """
    return torch.tensor([(m / np.arange(1, len(m) + 1)).mean() for m in made], dtype=torch.float64)


def risk_coverage(made: Mistakes, coverages: Float[Tensor, " N"]) -> Float[Tensor, "K N"]:
    """The share of mistakes when only this share of the voxels is kept, the most confident first: one at least."""
    count = len(made[0])
    kept = (coverages.double() * count).clamp(1, count).numpy()
    curves = [np.interp(kept, np.arange(1, count + 1), m) / kept for m in made]
    return torch.from_numpy(np.stack(curves))


def _mistakes(
    p: Float[Tensor, "*space"], truth: Bool[Tensor, "*space"]
) -> Float64[np.ndarray, " voxels"]:
    confidence = torch.maximum(p, 1 - p)
    wrong = confidence[(p > 0.5) != truth].numpy()
    levels, sizes = np.unique(
        confidence.numpy(), return_counts=True
    )  # NumPy sorts ten times as fast as torch
    found = np.bincount(np.searchsorted(levels, wrong), minlength=len(levels))
    return np.repeat(found / sizes, sizes)[::-1].cumsum()
