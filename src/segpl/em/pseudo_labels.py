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
