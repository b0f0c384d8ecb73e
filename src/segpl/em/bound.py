"""The bound of Eq. 7, computed without drawing T."""

from typing import NamedTuple

import torch

from segpl.em.objectives import ImageObjective
from segpl.em.posteriors import Posterior
from segpl.em.tensors import PerClass, Probabilities, Scalar


class Bound(NamedTuple):
    """E[log P(y_u | x_u, T)] - KL(p(T) || q(beta)) of each image and class (Eq. 7).

    log P(y_u | x_u, T) is minus the M-step's loss of the prediction against the pseudo-label that
    T cuts from it. The label is made by T and not observed, so this is no likelihood, and the
    distribution that maximises the bound is a generalised (Gibbs) posterior: the prior, reweighted
    by exp(-loss / kl_weight).
    """

    objective: ImageObjective
    """The M-step's loss, for one image and class."""
    kl_weight: float
    """Weight of the KL; 1 is the paper's."""

    def value(self, posterior: Posterior, p: Probabilities) -> PerClass:
        """The bound at this posterior. T is a single number, so the expectation is a sum."""
        expected_loss = posterior.expected_loss(p, self.objective)
        return -expected_loss - self.kl_weight * posterior.kl

    @torch.no_grad()
    def summary(self, posterior: Posterior, p: Probabilities) -> dict[str, Scalar]:
        """The posterior of T and the mean of the bound over images and classes, for the log.

        There is no bound to follow where the images cannot change the posterior.
        """
        summary = posterior.summary()
        if posterior.is_inferred:
            summary["bound"] = self.value(posterior, p).mean()
        return summary
