"""The E-step's pseudo-label and the M-step's objectives: pure functions of probabilities and labels."""

from jaxtyping import Float
from monai.losses import DiceLoss
from torch import Tensor
from torch.nn.functional import binary_cross_entropy

_dice = DiceLoss()  # soft Dice per image and channel, then the mean (Eq. 3 averages over images)


def pseudo_label(
    p: Float[Tensor, "B K *space"], threshold: float | Float[Tensor, "B K"]
) -> Float[Tensor, "B K *space"]:
    """Y' = 1(p > T) (Eq. 1), with one T for all or one per image and class; no gradient passes an indicator."""
    if isinstance(threshold, Tensor):
        threshold = threshold.reshape(threshold.shape + (1,) * (p.ndim - 2))
    return (p > threshold).to(p.dtype)


def dice_loss(p: Float[Tensor, "B K *space"], y: Float[Tensor, "B K *space"]) -> Float[Tensor, ""]:
    """The paper's objective. Where both are empty it is 0, thanks to MONAI's smoothing term of 1e-5."""
    return _dice(p, y)


def dice_bce_loss(p: Float[Tensor, "B K *space"], y: Float[Tensor, "B K *space"]) -> Float[Tensor, ""]:
    """Half Dice, half binary cross-entropy.

    Dice alone has next to no gradient where a label is empty, and a region can get stuck at "everywhere"; the
    cross-entropy pulls it back.
    """
    return 0.5 * dice_loss(p, y) + 0.5 * binary_cross_entropy(p, y)


OBJECTIVES = {"dice": dice_loss, "dice+bce": dice_bce_loss}


def ramp(progress: float, start: float, length: float) -> float:
    """0 until `start`, then a straight line to 1 over `length`, all three as shares of the run."""
    if progress < start:
        return 0.0
    return min(1.0, (progress - start) / length) if length else 1.0
