"""The objectives of the M-step: pure functions of probabilities p and labels y.

`where` gives each voxel a weight; without it, all voxels count once.
"""

from typing import NamedTuple

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor
from torch.distributed.nn.functional import all_reduce
from torch.nn.functional import binary_cross_entropy

from segpl.em.tensors import Labels, PerClass, Probabilities, Scalar, VoxelWeights

IMAGE_SMOOTHING = 1e-5
"""Voxels added to both sides of the Dice of one image: 0 loss if both masks are empty."""
BATCH_SMOOTHING = 1.0
"""Voxels added to both sides of the Dice of a whole step."""
SMALLEST_LOG = -100.0
"""The least logarithm of a probability; torch's binary cross-entropy has the same limit."""


def dice_per_image(p: Probabilities, y: Labels, where: VoxelWeights | None = None) -> PerClass:
    """1 - soft Dice of each image and class; 0 where prediction and label are both empty."""
    spatial = tuple(range(2, p.ndim))
    overlap = _weighted(p * y, where).sum(spatial)
    total = _weighted(p + y, where).sum(spatial)
    return _one_minus_dice(overlap, total, IMAGE_SMOOTHING)


def dice_loss(p: Probabilities, y: Labels, where: VoxelWeights | None = None) -> Scalar:
    """f_dice of Eq. 3, the paper's objective: the mean over images and classes."""
    return dice_per_image(p, y, where).mean()


def batch_dice_loss(p: Probabilities, y: Labels, where: VoxelWeights | None = None) -> Scalar:
    """1 - soft Dice of all images of the step taken together, averaged over classes.

    The Dice of a single image does not penalise false foreground if the region is absent from the
    image. Here it lowers the region's Dice over the step. Processes add up their sums, so several
    processes compute the loss of one. Smoothed by 1 voxel, hence 0 if everything is empty.
    """
    all_but_class = (0, *range(2, p.ndim))
    overlap = sum_over_processes(_weighted(p * y, where).sum(all_but_class))
    total = sum_over_processes(_weighted(p + y, where).sum(all_but_class))
    return _one_minus_dice(overlap, total, BATCH_SMOOTHING).mean()


def bce_loss(p: Probabilities, y: Labels, where: VoxelWeights | None = None) -> Scalar:
    """Binary cross-entropy per voxel: minus the log-likelihood of labels with Bernoulli voxels."""
    # torch refuses binary cross-entropy in half precision.
    with torch.autocast(p.device.type, enabled=False):
        return binary_cross_entropy(p.float(), y.float(), weight=where)


def dice_bce_loss(p: Probabilities, y: Labels, where: VoxelWeights | None = None) -> Scalar:
    """Half Dice per image, half binary cross-entropy.

    Dice alone has almost no gradient where a label is empty, so a region can get stuck at
    "foreground everywhere". The cross-entropy pulls it back.
    """
    return 0.5 * dice_loss(p, y, where) + 0.5 * bce_loss(p, y, where)


def batch_dice_bce_loss(p: Probabilities, y: Labels, where: VoxelWeights | None = None) -> Scalar:
    """Half Dice of all images of the step together, half binary cross-entropy."""
    return 0.5 * batch_dice_loss(p, y, where) + 0.5 * bce_loss(p, y, where)


OBJECTIVES = {
    "dice": dice_loss,
    "dice+bce": dice_bce_loss,
    "batch-dice+bce": batch_dice_bce_loss,
}


class SumsOverVoxels(NamedTuple):
    """What an objective needs to know of p and y, for each image and class."""

    overlap: Float[Tensor, "B K *N"]
    """Sum of p where y is 1."""
    total: Float[Tensor, "B K *N"]
    """Sum of p, plus sum of y."""
    log_likelihood: Float[Tensor, "B K *N"]
    """Sum of log p where y is 1, and of log(1 - p) where it is 0."""
    voxels: int


class ImageObjective(NamedTuple):
    """An objective of each image and class by itself, as a function of sums over its voxels.

    The likelihood of a threshold (Eq. 4 and 7) belongs to one image and class, so it cannot use
    the mean over the images of a step.
    """

    bce_share: float
    """Weight of the binary cross-entropy; the rest is the weight of Dice."""
    smoothing: float
    """Voxels added to both sides of the Dice."""

    def loss(self, sums: SumsOverVoxels) -> Float[Tensor, "B K *N"]:
        """The weighted mean of 1 - soft Dice and the cross-entropy per voxel."""
        dice = _one_minus_dice(sums.overlap, sums.total, self.smoothing)
        bce = -sums.log_likelihood / sums.voxels
        return (1 - self.bce_share) * dice + self.bce_share * bce


IMAGE_OBJECTIVES = {
    "dice": ImageObjective(bce_share=0.0, smoothing=IMAGE_SMOOTHING),
    "dice+bce": ImageObjective(bce_share=0.5, smoothing=IMAGE_SMOOTHING),
    "batch-dice+bce": ImageObjective(bce_share=0.5, smoothing=BATCH_SMOOTHING),
}
"""The objectives with each image as a step of its own."""


def log_probabilities(p: Probabilities) -> tuple[Probabilities, Probabilities]:
    """The logarithms of p and of 1 - p, not below `SMALLEST_LOG`."""
    log_p = p.log().clamp(min=SMALLEST_LOG)
    log_not_p = (-p).log1p().clamp(min=SMALLEST_LOG)
    return log_p, log_not_p


def _one_minus_dice(overlap: Tensor, total: Tensor, smoothing: float) -> Tensor:
    return 1 - (2 * overlap + smoothing) / (total + smoothing)


def _weighted(voxels: Probabilities, where: VoxelWeights | None) -> Probabilities:
    if where is None:
        return voxels
    return voxels * where


def sum_over_processes(value: Float[Tensor, "K *N"]) -> Float[Tensor, "K *N"]:
    """The sum over all processes, with gradients; the value itself if there is only one process."""
    if not (dist.is_available() and dist.is_initialized()):
        return value
    return all_reduce(value)


def ramp(progress: float, start: float, length: float) -> float:
    """A weight that is 0 until `start`, then rises linearly to 1 over `length`.

    All three arguments are shares of the run.
    """
    if progress < start:
        return 0.0
    if length == 0:
        return 1.0
    return min(1.0, (progress - start) / length)
