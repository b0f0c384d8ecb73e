"""The E-step's pseudo-label and the M-step's objectives: pure functions of probabilities and labels."""

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor
from torch.distributed.nn.functional import all_reduce
from torch.nn.functional import binary_cross_entropy


def dice_per_image(
    p: Float[Tensor, "B K *space"],
    y: Float[Tensor, "B K *space"],
    where: Float[Tensor, "B #K *space"] | None = None,
) -> Float[Tensor, "B K"]:
    """1 - soft Dice of each image and class; 0 where both are empty. Voxels count by the weights `where`."""
    spatial = tuple(range(2, p.ndim))
    overlap = _weighted(p * y, where).sum(spatial)
    total = _weighted(p + y, where).sum(spatial)
    return 1 - (2 * overlap + 1e-5) / (total + 1e-5)


def dice_loss(
    p: Float[Tensor, "B K *space"],
    y: Float[Tensor, "B K *space"],
    where: Float[Tensor, "B #K *space"] | None = None,
) -> Float[Tensor, ""]:
    """The paper's objective: the mean over images and classes (Eq. 3)."""
    return dice_per_image(p, y, where).mean()


def batch_dice_loss(
    p: Float[Tensor, "B K *space"],
    y: Float[Tensor, "B K *space"],
    where: Float[Tensor, "B #K *space"] | None = None,
) -> Float[Tensor, ""]:
    """1 - soft Dice of all images of the step taken together, averaged over classes.

    An image in which a region is absent has no Dice of its own, and false foreground there goes
    unpunished; here it counts against the region's Dice in the other images. Several processes add
    up their sums, so that they have the loss of one. Smoothed by 1 voxel: 0 where all is empty.
    """
    axes = (0, *range(2, p.ndim))
    overlap = over_processes(_weighted(p * y, where).sum(axes))
    total = over_processes(_weighted(p + y, where).sum(axes))
    return (1 - (2 * overlap + 1) / (total + 1)).mean()


def _weighted(
    x: Float[Tensor, "B K *space"], where: Float[Tensor, "B #K *space"] | None
) -> Float[Tensor, "B K *space"]:
    return x if where is None else x * where


def over_processes(value: Float[Tensor, " K"]) -> Float[Tensor, " K"]:
    """The sum over all processes, which gradients pass; the value itself where there is one process."""
    if not (dist.is_available() and dist.is_initialized()):
        return value
    return all_reduce(value)


def dice_bce_loss(
    p: Float[Tensor, "B K *space"],
    y: Float[Tensor, "B K *space"],
    where: Float[Tensor, "B #K *space"] | None = None,
) -> Float[Tensor, ""]:
    """Half Dice per image, half binary cross-entropy.

    Dice alone has next to no gradient where a label is empty, and a region can get stuck at
    "everywhere"; the cross-entropy pulls it back.
    """
    return 0.5 * dice_loss(p, y, where) + 0.5 * bce_loss(p, y, where)


def batch_dice_bce_loss(
    p: Float[Tensor, "B K *space"],
    y: Float[Tensor, "B K *space"],
    where: Float[Tensor, "B #K *space"] | None = None,
) -> Float[Tensor, ""]:
    """Half Dice of the step's images together, half binary cross-entropy."""
    return 0.5 * batch_dice_loss(p, y, where) + 0.5 * bce_loss(p, y, where)


def bce_loss(
    p: Float[Tensor, "B K *space"],
    y: Float[Tensor, "B K *space"],
    where: Float[Tensor, "B #K *space"] | None = None,
) -> Float[Tensor, ""]:
    """Binary cross-entropy: minus the log-likelihood of a label whose voxels are Bernoulli, per voxel."""
    with torch.autocast(
        p.device.type, enabled=False
    ):  # torch refuses this one in half precision, and rightly
        return binary_cross_entropy(p.float(), y.float(), weight=where)


OBJECTIVES = {"dice": dice_loss, "dice+bce": dice_bce_loss, "batch-dice+bce": batch_dice_bce_loss}


def ramp(progress: float, start: float, length: float) -> float:
    """0 until `start`, then a straight line to 1 over `length`, all three as shares of the run."""
    if progress < start:
        return 0.0
    return min(1.0, (progress - start) / length) if length else 1.0
