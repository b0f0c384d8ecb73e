"""SegPL-ELBO: SegPL-VI with a threshold whose posterior learns from the data."""

from dataclasses import dataclass

from pydantic import PositiveFloat

from segpl.em.pseudo_labels import straight_through_label, unsaturated
from segpl.em.types import Batch, Losses
from segpl.methods.base import Model, Thresholded, posterior_summary


@dataclass(frozen=True)
class SegPLElbo(Thresholded):
    """As segpl-vi, but the bound of Eq. 7 is maximised over phi as well as theta.

    log P(y_u | x_u, T) is minus the M-step's objective, as a function of the T that cuts y_u. A
    straight-through indicator carries its gradient into phi. There it is balanced by the KL alone:
    alpha says how far theta trusts the pseudo-labels, not what an image says about its threshold.
    phi does not change the features that it reads.
    """

    width: PositiveFloat = 0.1
    """Width of the soft step that replaces the indicator p > T in the gradient, in units of
    probability."""

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """Eq. 3 for theta, Eq. 7 for phi."""
        alpha = self.unlabelled_weight(progress)
        theta = model["theta"]
        features = theta.features(batch.x)
        p_l, p_u = batch.split(theta.head(features).sigmoid())
        p_fixed = p_u.detach()

        # E-step (Eq. 5, 6 and 1): y_u passes a gradient to T, and through T to phi
        posterior = self.posterior(model, features.detach(), p_fixed)
        threshold = posterior.draw(batch.seeds_u)
        y_u = straight_through_label(p_fixed, threshold, self.width)
        y_fixed = y_u.detach()

        # M-step: the first two terms train theta (Eq. 3), the last two train phi (Eq. 7)
        terms = {
            "labelled": self.segmentation_loss(p_l, batch.y_l),
            "unlabelled": alpha * self.segmentation_loss(p_u, y_fixed),
            "evidence": self.segmentation_loss(unsaturated(p_fixed), y_u),
            "kl": self.kl_weight * posterior.kl.mean(),
        }
        return Losses(terms, y_fixed, threshold, posterior_summary(posterior))
