"""Calibration: pure functions of probabilities and truth, with one number per region."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor
from torch.nn.functional import binary_cross_entropy

from segpl.metrics.tensors import Masks, Probabilities, Scores

EPSILON = 0.5 / 65535
"""Half a step of the 16 bits that probabilities are stored in; a mistake of certainty then costs
11.8 nats."""
BINS = 20
EDGES = torch.arange(1, BINS, dtype=torch.float64) / BINS
"""The inner edges of the bins."""

ExpectedMistakes = Float64[np.ndarray, " voxels"]
"""The expected number of mistakes among the n most confident voxels, for every n from 1."""
Mistakes = list[ExpectedMistakes]
"""One entry per region."""


class Reliability(NamedTuple):
    """Voxels counted in 20 equal bins of p. All values are sums, so cases can be added up.

    An edge belongs to the more confident bin: the lower one below 0.5, the upper one above it, so
    that p and 1 - p have the same confidence. p = 0.5 is background, hence in the lower half.
    """

    voxels: Float64[Tensor, "K 20"]
    """The number of voxels."""
    confidence: Float64[Tensor, "K 20"]
    """The sum of p."""
    foreground: Float64[Tensor, "K 20"]
    """The number of voxels that are truly foreground."""


def brier(p: Probabilities, truth: Masks) -> Scores:
    """The mean of (p - y)^2 over the voxels (the paper's appendix): 0 is best, 1 is worst."""
    y = truth.to(p.dtype)
    return (p - y).square().flatten(1).mean(1)


def negative_log_likelihood(p: Probabilities, truth: Masks) -> Scores:
    """The mean binary cross-entropy over the voxels in nats: 0 is best."""
    p = p.clamp(EPSILON, 1 - EPSILON)
    y = truth.to(p.dtype)
    return binary_cross_entropy(p, y, reduction="none").flatten(1).mean(1)


def reliability(p: Probabilities, truth: Masks) -> Reliability:
    """The counts of one case, for reliability diagrams and calibration errors."""
    counts = [_count_bins(*region) for region in zip(p, truth, strict=True)]
    voxels, confidence, foreground = torch.stack(counts, dim=1)
    return Reliability(voxels, confidence, foreground)


def _count_bins(
    p: Float[Tensor, "*space"], truth: Bool[Tensor, "*space"]
) -> Float64[Tensor, "3 20"]:
    """Voxels, sum of p, and foreground voxels in each bin, of one region."""
    p = p.flatten()
    edges = EDGES.to(p)
    edge_in_lower_bin = torch.bucketize(p, edges)
    edge_in_upper_bin = torch.bucketize(p, edges, right=True)
    bins = edge_in_lower_bin.where(p <= 0.5, edge_in_upper_bin)
    voxels = torch.bincount(bins, minlength=BINS)
    confidence = torch.bincount(bins, weights=p.double(), minlength=BINS)
    foreground = torch.bincount(bins[truth.flatten()], minlength=BINS)
    return torch.stack([voxels, confidence, foreground])


def ece(counts: Reliability) -> Scores:
    """Expected calibration error of the predicted label: 0 is best.

    Confidence max(p, 1 - p) is compared with the frequency of correct labels. The bins below 0.5
    fold onto those above, which gives ten bins of confidence.
    """
    gap = counts.confidence - counts.foreground
    below, above = gap.split(BINS // 2, dim=1)
    # Below 0.5 the label is background, whose gap is (1 - p) - (1 - y): the sign changes.
    folded = above - below.flip(1)
    return folded.abs().sum(1) / counts.voxels.sum(1)


def classwise_ece(counts: Reliability) -> Scores:
    """Expected calibration error of the foreground: 0 is best.

    Its probability is compared with its frequency in each of the 20 bins.
    """
    gap = counts.confidence - counts.foreground
    return gap.abs().sum(1) / counts.voxels.sum(1)


def mistakes(p: Probabilities, truth: Masks) -> Mistakes:
    """Expected mistakes in the order of confidence max(p, 1 - p), for `aurc` and `risk_coverage`.

    Voxels of equal confidence have no order, so each counts by the share of mistakes among them.
    """
    return [_expected_mistakes(*region) for region in zip(p, truth, strict=True)]


def _expected_mistakes(
    p: Float[Tensor, "*space"], truth: Bool[Tensor, "*space"]
) -> ExpectedMistakes:
    confidence = torch.maximum(p, 1 - p)
    is_wrong = (p > 0.5) != truth
    # NumPy sorts ten times as fast as torch.
    levels, voxels_at_level = np.unique(confidence.numpy(), return_counts=True)
    level_of_mistake = np.searchsorted(levels, confidence[is_wrong].numpy())
    mistakes_at_level = np.bincount(level_of_mistake, minlength=len(levels))
    per_voxel = np.repeat(mistakes_at_level / voxels_at_level, voxels_at_level)
    most_confident_first = per_voxel[::-1]
    return most_confident_first.cumsum()


def aurc(mistakes_by_region: Mistakes) -> Scores:
    """Area under the risk-coverage curve: 0 is best.

    The share of mistakes among the n most confident voxels, averaged over n.
    """
    areas = []
    for expected in mistakes_by_region:
        covered = np.arange(1, len(expected) + 1)
        areas.append((expected / covered).mean())
    return torch.tensor(areas, dtype=torch.float64)


def risk_coverage(
    mistakes_by_region: Mistakes, coverages: Float[Tensor, " N"]
) -> Float[Tensor, "K N"]:
    """The share of mistakes if only a share of the voxels is kept, the most confident first.

    At least one voxel is kept. Between whole numbers of voxels, mistakes are interpolated.
    """
    voxels = len(mistakes_by_region[0])
    kept = (coverages.double() * voxels).clamp(1, voxels).numpy()
    covered = np.arange(1, voxels + 1)
    risks = [np.interp(kept, covered, expected) / kept for expected in mistakes_by_region]
    return torch.from_numpy(np.stack(risks))
