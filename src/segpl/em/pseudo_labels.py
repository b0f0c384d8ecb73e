"""The E-step's pseudo-labels: pure functions of probabilities and thresholds."""

from torch import Tensor

from segpl.em.broadcasting import append_axes
from segpl.em.tensors import Labels, PerClass, Probabilities


def pseudo_label(p: Probabilities, threshold: float | PerClass) -> Labels:
    """The label 1(p > T) (Eq. 1), with one T for all images or one per image and class.

    No gradient passes the indicator.
    """
    if isinstance(threshold, Tensor):
        threshold = append_axes(threshold, like=p)
    return (p > threshold).to(p.dtype)


def straight_through_label(p: Probabilities, threshold: PerClass, width: float) -> Labels:
    """The label 1(p > T), whose gradient with respect to T is that of sigmoid((p - T) / width).

    A straight-through estimator: the value is a hard label, and the gradient reaches T but not p.
    """
    hard = pseudo_label(p, threshold)
    distance = p.detach() - append_axes(threshold, like=p)
    soft = (distance / width).sigmoid()
    return hard + soft - soft.detach()


def unsaturated(p: Probabilities) -> Probabilities:
    """Probabilities at least 1e-6 away from 0 and 1.

    At 0 and 1 the cross-entropy has an infinite slope with respect to its label.
    """
    return p.clamp(1e-6, 1 - 1e-6)
