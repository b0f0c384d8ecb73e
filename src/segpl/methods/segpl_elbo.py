"""SegPL-VI's sibling in which the data reach the threshold's posterior."""

from dataclasses import dataclass

import torch
from pydantic import PositiveFloat

from segpl.em.pseudo_labels import relaxed_label, unsaturated
from segpl.em.types import Batch, Losses
from segpl.methods.base import Model, Thresholded, watch


@dataclass(frozen=True)
class SegPLElbo(Thresholded):
    """Learn the threshold's posterior from the data too: the bound of Eq. 7 is maximised over phi as well as theta.

    log P(y_u | x_u, T) is minus the M-step's own objective, as a function of the T that cuts y_u. A straight-through
    indicator (hard value, soft gradient) carries it into phi, where it is weighed against the KL alone: alpha says how
    much theta trusts the pseudo-labels, not how much an image says about its threshold. phi reads the features as they
    are and does not bend them.
    """

    width: PositiveFloat = 0.1
    """How soft the indicator's step is for the gradient, in units of probability."""

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """Eq. 3 for theta, Eq. 7 for phi."""
        theta = self.theta(model)
        features = theta.features(torch.cat([batch.x_l, batch.x_u]))
        p_l, p_u = theta.head(features).sigmoid().split([len(batch.x_l), len(batch.x_u)])
        posterior = self.posterior(model, features.detach(), p_u.detach())
        threshold = posterior.draw(batch.seeds_u)
        y_u = relaxed_label(p_u.detach(), threshold, self.width)  # E-step
        terms = {
            "labelled": self.fit(p_l, batch.y_l),  # M-step
            "unlabelled": self.unlabelled_weight(progress) * self.fit(p_u, y_u.detach()),
            "evidence": self.fit(
                unsaturated(p_u.detach()), y_u
            ),  # the first term of Eq. 7, for phi alone
            "kl": self.kl_weight * posterior.kl.mean(),
        }
        return Losses(terms, y_u.detach(), threshold, watch(posterior))
