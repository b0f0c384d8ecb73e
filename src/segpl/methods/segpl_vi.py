"""SegPL-VI: pseudo-labelling with a threshold whose posterior is inferred from the image."""

from dataclasses import dataclass

from segpl.em.pseudo_labels import pseudo_label
from segpl.em.types import Batch, Losses
from segpl.methods.base import Model, Thresholded


@dataclass(frozen=True)
class SegPLVI(Thresholded):
    """Learn from pseudo-labels cut at a threshold T ~ N(mu, sigma) of each image (Eq. 4 to 8).

    This is the paper as written. The indicator p > T passes no gradient, so only the KL moves phi
    and the posterior stays at its prior, or returns to it. The spread of T adds noise to the
    pseudo-labels. In segpl-elbo the data reach phi; with the categorical prior Eq. 4 is exact.
    """

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """L_SegPL with a drawn threshold, plus the KL (Eq. 8)."""
        alpha = self.unlabelled_weight(progress)
        theta = model["theta"]
        features = theta.features(batch.x)
        p = theta.head(features).sigmoid()
        p_l, p_u = batch.split(p)

        # E-step (Eq. 5, 6 and 1)
        posterior = self.posterior(model, features, p_u)
        threshold = posterior.draw(batch.seeds_u)
        y_u = pseudo_label(p_u, threshold)

        # M-step (Eq. 8)
        terms = {
            "labelled": self.segmentation_loss(p_l, batch.y_l, batch.counted_l),
            "unlabelled": alpha * self.segmentation_loss(p_u, y_u),
            "kl": self.kl_weight * posterior.kl.mean(),
        }
        return Losses(terms, y_u, threshold, self.bound.summary(posterior, p_u))
