"""The E-step's pseudo-labels: pure functions of probabilities and thresholds."""

from jaxtyping import Float
from torch import Tensor


def pseudo_label(
    p: Float[Tensor, "B K *space"], threshold: float | Float[Tensor, "B K"]
) -> Float[Tensor, "B K *space"]:
    """Y' = 1(p > T) (Eq. 1), with one T for all or one per image and class; no gradient passes an indicator."""
    if isinstance(threshold, Tensor):
        threshold = threshold.reshape(threshold.shape + (1,) * (p.ndim - 2))
    return (p > threshold).to(p.dtype)


def relaxed_label(
    p: Float[Tensor, "B K *space"], threshold: Float[Tensor, "B K"], width: float
) -> Float[Tensor, "B K *space"]:
    """The pseudo-label 1(p > T), with the gradient that a soft step of this width has with respect to T.

    Straight-through: the value is hard, so the label is a label; the gradient reaches T, and T alone.
    """
    t = threshold.reshape(threshold.shape + (1,) * (p.ndim - 2))
    soft = ((p.detach() - t) / width).sigmoid()
    return pseudo_label(p, threshold) + soft - soft.detach()


def unsaturated(p: Float[Tensor, "B K *space"]) -> Float[Tensor, "B K *space"]:
    """Probabilities a little off 0 and 1: there the slope of a cross-entropy in its label is infinite."""
    return p.clamp(1e-6, 1 - 1e-6)
