"""Posteriors p(T | x) of the threshold T that cuts an image's pseudo-label."""

from abc import ABC, abstractmethod

import numpy as np
import scipy.stats
import torch
from jaxtyping import Float
from torch import Tensor, distributions
from torch.distributions import kl_divergence

from segpl.em.tensors import PerClass, Seeds
from segpl.foundation.draws import Purpose, uniform

EDGE = 1e-4
"""T stays this far away from 0 and 1, where its logit is infinite."""


class Posterior(ABC):
    """p(T | x), with one T per image and class."""

    mean: PerClass
    standard_deviation: PerClass
    kl: PerClass
    """KL(p(T) || q(beta)), the divergence from the prior."""

    @abstractmethod
    def quantile(self, level: PerClass) -> PerClass:
        """The T below which a share of `level` of the posterior lies."""

    def draw(self, seeds: Seeds) -> PerClass:
        """One T per image and class, drawn from the image's own seed."""
        classes = self.mean.shape[1]
        level = uniform(seeds, classes, purpose=Purpose.THRESHOLD)
        return self.quantile(level.to(self.mean))


class PointPosterior(Posterior):
    """All probability on one T."""

    def __init__(self, threshold: PerClass):
        self.mean = threshold
        self.standard_deviation = torch.zeros_like(threshold)
        self.kl = torch.zeros_like(threshold)

    def quantile(self, level: PerClass) -> PerClass:
        """T, whatever the level."""
        return self.mean


class UniformPosterior(Posterior):
    """The uniform distribution on (0, 1)."""

    def __init__(self, mean: PerClass):
        self.mean = mean
        self.standard_deviation = torch.full_like(mean, 12**-0.5)
        self.kl = torch.zeros_like(mean)

    def quantile(self, level: PerClass) -> PerClass:
        """The level itself."""
        return level.clamp(EDGE, 1 - EDGE)


class TruncatedNormalPosterior(Posterior):
    """N(mu, sigma) (Eq. 6) truncated to (0, 1), where the paper lets T live.

    Mean, standard deviation and KL (Eq. 8) are those of the Normal before truncation.
    """

    def __init__(
        self,
        mu: PerClass,
        sigma: PerClass,
        mu_beta: Float[Tensor, "*B_K"],
        sigma_beta: float,
    ):
        self.normal = distributions.Normal(mu, sigma)
        self.mean = mu
        self.standard_deviation = sigma
        self.kl = kl_divergence(self.normal, distributions.Normal(mu_beta, sigma_beta))

    def quantile(self, level: PerClass) -> PerClass:
        """T at this level. For a uniform level it is a draw with gradients into mu and sigma."""
        below_0 = self.normal.cdf(torch.zeros_like(level))
        below_1 = self.normal.cdf(torch.ones_like(level))
        untruncated_level = below_0 + level * (below_1 - below_0)
        # The inverse has an infinite slope at 0 and 1, which would become NaN in the clamp of T.
        untruncated_level = untruncated_level.clamp(1e-7, 1 - 1e-7)
        return self.normal.icdf(untruncated_level).clamp(EDGE, 1 - EDGE)


class BetaPosterior(Posterior):
    """Beta(a, b), with its own a and b for each image and class."""

    def __init__(self, a: PerClass, b: PerClass, prior: distributions.Beta):
        self.beta = distributions.Beta(a, b)
        self.mean = self.beta.mean
        self.standard_deviation = self.beta.stddev
        self.kl = kl_divergence(self.beta, prior)

    def quantile(self, level: PerClass) -> PerClass:
        """T at this level, from scipy and without a gradient: torch has no quantile of Beta."""
        a = self.beta.concentration1.detach().cpu().numpy()
        b = self.beta.concentration0.detach().cpu().numpy()
        threshold = scipy.stats.beta.ppf(level.cpu().numpy(), a, b).astype(np.float32)
        return torch.from_numpy(threshold).to(level).clamp(EDGE, 1 - EDGE)

    def draw(self, seeds: Seeds) -> PerClass:
        """One T per image and class by torch's own sampler, with gradients into a and b."""
        shapes = zip(self.beta.concentration1, self.beta.concentration0, strict=True)
        thresholds = []
        with torch.random.fork_rng():
            for seed, (a, b) in zip(seeds, shapes, strict=True):
                torch.manual_seed(int(seed))
                thresholds.append(distributions.Beta(a, b).rsample())
        return torch.stack(thresholds).clamp(EDGE, 1 - EDGE)


class CategoricalPosterior(Posterior):
    """A finite set of thresholds, each with its probability."""

    def __init__(
        self,
        thresholds: Float[Tensor, " N"],
        probabilities: Float[Tensor, "B K N"],
        prior: Float[Tensor, " N"],
    ):
        self.thresholds = thresholds
        self.probabilities = probabilities
        self.mean = (probabilities * thresholds).sum(-1)
        mean_square = (probabilities * thresholds**2).sum(-1)
        self.standard_deviation = (mean_square - self.mean**2).clamp(min=0).sqrt()
        self.kl = kl_divergence(
            distributions.Categorical(probabilities), distributions.Categorical(prior)
        )

    def quantile(self, level: PerClass) -> PerClass:
        """The first threshold at which the cumulative probability reaches the level."""
        is_below = self.probabilities.cumsum(-1) < level[..., None]
        last = len(self.thresholds) - 1
        index = is_below.sum(-1).clamp(max=last)
        return self.thresholds[index]
