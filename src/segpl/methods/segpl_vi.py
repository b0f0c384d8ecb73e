"""SegPL-VI: pseudo-labelling with a threshold whose posterior is inferred from the image."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from pydantic import NonNegativeFloat, PositiveFloat
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from segpl.draws import uniform
from segpl.losses import pseudo_label
from segpl.methods.base import Model, Probability, SemiSupervised
from segpl.networks import ThresholdPosterior, UNet, quantile
from segpl.types import Batch, Losses


@dataclass(frozen=True)
class SegPLVI(SemiSupervised):
    """Learn from pseudo-labels cut at a threshold T ~ N(mu, sigma) drawn per image and class (Eq. 4 to 8).

    The paper as written. The indicator p > T passes no gradient, so the data never move phi: only the KL does, and the
    posterior stays at, or falls onto, its prior. What T's spread adds is noise in the pseudo-label.
    """

    prior_mean: Probability = 0.5
    """mu_beta: 0.5 for BRATS and 0.4 for CARVE in the paper."""
    prior_deviation: PositiveFloat = 0.1
    """sigma_beta."""
    kl_weight: NonNegativeFloat = 1.0
    """Weight of KL(p(T) || q(beta)); 1 is the bound of Eq. 7."""

    @property
    def prior(self) -> Normal:
        """q(beta)."""
        return Normal(self.prior_mean, self.prior_deviation)

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """theta, and phi on its features."""
        theta = network()
        phi = ThresholdPosterior(theta.channels, theta.regions, theta.dimensions, self.prior_mean, self.prior_deviation)
        return nn.ModuleDict({"theta": theta, "phi": phi})

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """L_SegPL with a drawn threshold, plus the KL (Eq. 8)."""
        features = model["theta"].features(torch.cat([batch.x_l, batch.x_u]))
        p_l, p_u = model["theta"].head(features).sigmoid().split([len(batch.x_l), len(batch.x_u)])
        posterior = model["phi"](features[len(batch.x_l) :])  # Eq. 5 and 6
        threshold = quantile(posterior, uniform(batch.seeds_u, p_u.shape[1]))
        y_u = pseudo_label(p_u, threshold)  # E-step
        terms = {
            "labelled": self.fit(p_l, batch.y_l),  # M-step
            "unlabelled": self.weight(progress) * self.fit(p_u, y_u),
            "kl": self.kl_weight * kl_divergence(posterior, self.prior).mean(),
        }
        watched = {"posterior_mean": posterior.mean.mean(), "posterior_deviation": posterior.stddev.mean()}
        return Losses(terms, y_u, threshold, watched)

    def predict(self, model: Model, x: Float[Tensor, "B C *space"], samples: int = 1) -> Float[Tensor, "S B K *space"]:
        """Probabilities seen from S thresholds, spread evenly over the posterior; a single one is its median.

        Subtracting logit(T) puts T where 1/2 was, so that the mask of a sample is where p > T.
        """
        features = model["theta"].features(x)
        logits, posterior = model["theta"].head(features), model["phi"](features)
        levels = (torch.arange(samples) + 0.5) / samples
        thresholds = torch.stack([quantile(posterior, torch.full_like(posterior.mean, float(u))) for u in levels])
        return (logits - thresholds.logit().reshape(*thresholds.shape, *[1] * (logits.ndim - 2))).sigmoid()
