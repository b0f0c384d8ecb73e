"""The loss of each image and class as a function of the threshold T: what Eq. 4 and 7 sum over.

All functions return one loss per image, class and threshold, without gradients.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from segpl.em.objectives import ImageObjective, SumsOverVoxels, log_probabilities
from segpl.em.tensors import Labels, Probabilities, VoxelWeights

CELLS = 256
"""Cells of equal width into which (0, 1) is divided for thresholds that may lie anywhere. A power
of 2, so that the product with a probability is exact."""
BINS = 2 * CELLS
"""Bins of a histogram of probabilities: two in each cell, so the middle of a cell is an edge."""

LossPerThreshold = Float[Tensor, "B K N"]
PerBin = Float[Tensor, "B K M"]


@torch.no_grad()
def cut_losses(
    p: Probabilities, thresholds: Float[Tensor, " N"], objective: ImageObjective
) -> LossPerThreshold:
    """The loss of p against its own pseudo-label 1(p > T) for each T, one T after the other.

    For few thresholds. It uses only operations that a trained model can be exported with.
    """
    p = p.flatten(2)
    log_p, log_not_p = log_probabilities(p)
    total_p = p.sum(2)
    losses = []
    for threshold in thresholds:
        is_above = p > threshold
        above = is_above.to(p.dtype)
        sums = SumsOverVoxels(
            overlap=(p * above).sum(2),
            total=total_p + above.sum(2),
            log_likelihood=torch.where(is_above, log_p, log_not_p).sum(2),
            voxels=p.shape[2],
        )
        losses.append(objective.loss(sums))
    return torch.stack(losses, dim=-1)


@torch.no_grad()
def cut_losses_on_grid(p: Probabilities, objective: ImageObjective) -> LossPerThreshold:
    """The same as `cut_losses` for the middles of all cells.

    The probabilities are sorted into bins once; sums over the bins above or below T then give the
    loss of every T.
    """
    p = p.flatten(2)
    log_p, log_not_p = log_probabilities(p)
    bins = _bin_indices(p)
    sum_of_p = _sum_by_bin(p, bins)
    sums = SumsOverVoxels(
        overlap=_above_middles(sum_of_p),
        total=sum_of_p.sum(2, keepdim=True) + _above_middles(_count_by_bin(bins)),
        log_likelihood=_above_middles(_sum_by_bin(log_p, bins))
        + _below_middles(_sum_by_bin(log_not_p, bins)),
        voxels=p.shape[2],
    )
    return objective.loss(sums).to(p.dtype)


@torch.no_grad()
def label_losses(
    p: Probabilities,
    y: Labels,
    thresholds: Float[Tensor, " N"],
    where: VoxelWeights | None = None,
) -> LossPerThreshold:
    """Minus the log-likelihood per voxel of labels y under each T; `where` weights the voxels.

    A voxel is foreground with probability sigmoid(logit p - logit T) = p (1 - T) / D, and
    background with probability (1 - p) T / D, where D = T + p (1 - 2 T). Only log D depends on
    p and T together. D is linear in p and changes little within a bin of probabilities, so the
    mean p of a bin stands for its voxels.
    """
    weights = torch.ones_like(p) if where is None else where.expand_as(p)
    weights = weights.flatten(2)
    weights = weights / weights.mean(2, keepdim=True).clamp(min=1e-6)
    p = p.flatten(2)
    y = y.flatten(2)
    log_p, log_not_p = log_probabilities(p)
    of_p = (weights * torch.where(y > 0, log_p, log_not_p)).mean(2)
    foreground = (weights * y).mean(2)[..., None]
    of_threshold = foreground * (1 - thresholds).log() + (1 - foreground) * thresholds.log()
    of_both = _mean_log_denominator(p, weights, thresholds)
    return of_both - of_p[..., None] - of_threshold


def _mean_log_denominator(
    p: Tensor, weights: Tensor, thresholds: Float[Tensor, " N"]
) -> LossPerThreshold:
    """The mean of log(T + p (1 - 2 T)) over voxels with weights."""
    bins = _bin_indices(p)
    weight = _sum_by_bin(weights, bins)
    mean_p = _sum_by_bin(weights * p, bins) / weight.clamp(min=1e-6)
    share = weight / p.shape[2]
    log_denominator = (thresholds + mean_p[..., None] * (1 - 2 * thresholds)).log()
    return (share[..., None] * log_denominator).sum(2).to(p.dtype)


def _bin_indices(p: Tensor) -> Int[Tensor, "B K V"]:
    """The bin of each probability: an edge belongs to the bin below it, as 1(p > T) demands."""
    return ((p * BINS).ceil().long() - 1).clamp(min=0)


def _sum_by_bin(values: Tensor, bins: Int[Tensor, "B K V"]) -> PerBin:
    """The sum of the values in each bin, in double precision: a bin may hold a whole image."""
    sums = values.new_zeros(*bins.shape[:2], BINS, dtype=torch.float64)
    return sums.scatter_add_(2, bins, values.double())


def _count_by_bin(bins: Int[Tensor, "B K V"]) -> PerBin:
    ones = torch.ones((), device=bins.device).expand(bins.shape)
    return _sum_by_bin(ones, bins)


def _above_middles(by_bin: PerBin) -> LossPerThreshold:
    """For the middle of each cell, the sum over the bins above it."""
    from_bin_on = by_bin.flip(-1).cumsum(-1).flip(-1)
    return from_bin_on[..., 1::2]


def _below_middles(by_bin: PerBin) -> LossPerThreshold:
    """For the middle of each cell, the sum over the bins below it."""
    up_to_bin = by_bin.cumsum(-1)
    return up_to_bin[..., 0::2]
