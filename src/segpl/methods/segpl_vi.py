"""SegPL-VI: pseudo-labelling with a threshold whose posterior is inferred from the image."""

from dataclasses import dataclass

import torch

from segpl.em.pseudo_labels import pseudo_label
from segpl.em.types import Batch, Losses
from segpl.methods.base import Model, Thresholded, watch


@dataclass(frozen=True)
class SegPLVI(Thresholded):
    """Learn from pseudo-labels cut at a threshold T ~ N(mu, sigma) drawn per image and class (Eq. 4 to 8).

    The paper as written. The indicator p > T passes no gradient, so the data never move phi: only the KL does, and the
    posterior stays at, or falls onto, its prior. What T's spread adds is noise in the pseudo-label. See segpl-elbo for
    the sibling in which the data reach phi, and the categorical prior for the case where Eq. 4 is exact.
    """

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """L_SegPL with a drawn threshold, plus the KL (Eq. 8)."""
        theta = self.theta(model)
        features = theta.features(torch.cat([batch.x_l, batch.x_u]))
        p_l, p_u = theta.head(features).sigmoid().split([len(batch.x_l), len(batch.x_u)])
        posterior = self.posterior(model, features, p_u)  # Eq. 5 and 6
        threshold = posterior.draw(batch.seeds_u)
        y_u = pseudo_label(p_u, threshold)  # E-step
        terms = {
            "labelled": self.fit(p_l, batch.y_l),  # M-step
            "unlabelled": self.unlabelled_weight(progress) * self.fit(p_u, y_u),
            "kl": self.kl_weight * posterior.kl.mean(),
        }
        return Losses(terms, y_u, threshold, watch(posterior))
