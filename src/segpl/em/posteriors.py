"""Posteriors p(T | x) of the threshold T that cuts an image's pseudo-label."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.stats
import torch
from jaxtyping import Float
from torch import Tensor, distributions
from torch.distributions import kl_divergence

from segpl.em.objectives import ImageObjective
from segpl.em.tensors import Labels, PerClass, Probabilities, Scalar, Seeds, VoxelWeights
from segpl.em.threshold_losses import CELLS, cut_losses, cut_losses_on_grid, label_losses
from segpl.foundation.draws import Purpose, uniform

EDGE = 1e-4
"""T stays this far away from 0 and 1, where its logit is infinite."""


class Support(NamedTuple):
    """Values of T, and the probability of each: an expectation over T is a sum over them."""

    thresholds: Float[Tensor, " N"]
    probabilities: Float[Tensor, "B K N"]


class Posterior(ABC):
    """p(T | x), with one T per image and class."""

    is_inferred: ClassVar[bool] = True
    """Whether an image can change it."""

    mean: PerClass
    standard_deviation: PerClass
    kl: PerClass
    """KL(p(T) || q(beta)), the divergence from the prior."""

    @abstractmethod
    def quantile(self, level: PerClass) -> PerClass:
        """The T below which a share of `level` of the posterior lies."""

    @abstractmethod
    def support(self) -> Support:
        """The values that T takes, with gradients into what the posterior is made from."""

    def expected_loss(self, p: Probabilities, objective: ImageObjective) -> PerClass:
        """E[L(T)], where L(T) is the loss of p against its own pseudo-label 1(p > T).

        The gradient reaches the posterior and not p.
        """
        support = self.support()
        losses = cut_losses(p, support.thresholds, objective)
        return (support.probabilities * losses).sum(-1)

    def expected_label_loss(
        self, p: Probabilities, y: Labels, where: VoxelWeights | None = None
    ) -> PerClass:
        """E[-log P(y | x, T)] per voxel of observed labels y (see `label_losses`).

        The gradient reaches the posterior and not p.
        """
        support = self.support()
        losses = label_losses(p, y, support.thresholds, where)
        return (support.probabilities * losses).sum(-1)

    def summary(self) -> dict[str, Scalar]:
        """The mean and standard deviation of T, averaged over images and classes, for the log."""
        return {
            "posterior_mean": self.mean.mean(),
            "posterior_deviation": self.standard_deviation.mean(),
        }

    def draw(self, seeds: Seeds) -> PerClass:
        """One T per image and class, drawn from the image's own seed."""
        classes = self.mean.shape[1]
        level = uniform(seeds, classes, purpose=Purpose.THRESHOLD)
        return self.quantile(level.to(self.mean))


class PointPosterior(Posterior):
    """All probability on one T, the same for every image and class of p."""

    is_inferred = False

    def __init__(self, threshold: float, p: Probabilities):
        self.threshold = threshold
        self.mean = p.new_full(p.shape[:2], threshold)
        self.standard_deviation = torch.zeros_like(self.mean)
        self.kl = torch.zeros_like(self.mean)

    def quantile(self, level: PerClass) -> PerClass:
        """T, whatever the level."""
        return self.mean

    def support(self) -> Support:
        """The one T."""
        return Support(
            self.mean.new_tensor([self.threshold]), torch.ones_like(self.mean)[..., None]
        )


class ContinuousPosterior(Posterior):
    """A distribution on (0, 1), summed over `CELLS` cells of equal width."""

    @abstractmethod
    def cell_probabilities(self, edges: Float[Tensor, " M"]) -> Float[Tensor, "B K N"]:
        """The probability that T lies between each edge and the next one."""

    def support(self) -> Support:
        """The middle of each cell, which stands for the cell."""
        edges = torch.linspace(0, 1, CELLS + 1).to(self.mean)
        middles = (edges[:-1] + edges[1:]) / 2
        return Support(middles, self.cell_probabilities(edges))

    def expected_loss(self, p: Probabilities, objective: ImageObjective) -> PerClass:
        """E[L(T)] as for any posterior; all thresholds of the grid are cut in one pass."""
        losses = cut_losses_on_grid(p, objective)
        return (self.support().probabilities * losses).sum(-1)


class UniformPosterior(ContinuousPosterior):
    """The uniform distribution on (0, 1)."""

    is_inferred = False

    def __init__(self, mean: PerClass):
        self.mean = mean
        self.standard_deviation = torch.full_like(mean, 12**-0.5)
        self.kl = torch.zeros_like(mean)

    def quantile(self, level: PerClass) -> PerClass:
        """The level itself."""
        return level.clamp(EDGE, 1 - EDGE)

    def cell_probabilities(self, edges: Float[Tensor, " M"]) -> Float[Tensor, "B K N"]:
        """The width of each cell."""
        return edges.diff().expand(*self.mean.shape, -1)


class TruncatedNormalPosterior(ContinuousPosterior):
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

    def cell_probabilities(self, edges: Float[Tensor, " M"]) -> Float[Tensor, "B K N"]:
        """Differences of the distribution function F between 0 and 1."""
        mu = self.normal.mean[..., None]
        sigma = self.normal.stddev[..., None]
        cumulative = distributions.Normal(mu, sigma).cdf(edges)
        untruncated = cumulative.diff()
        return untruncated / untruncated.sum(-1, keepdim=True)


class BetaPosterior(ContinuousPosterior):
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

    def cell_probabilities(self, edges: Float[Tensor, " M"]) -> Float[Tensor, "B K N"]:
        """The normalised density at the middle of each cell.

        torch has no distribution function of Beta, and scipy's has no gradient.
        """
        middles = (edges[:-1] + edges[1:]) / 2
        a = self.beta.concentration1[..., None]
        b = self.beta.concentration0[..., None]
        return distributions.Beta(a, b).log_prob(middles).softmax(-1)


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

    def support(self) -> Support:
        """The thresholds with their probabilities."""
        return Support(self.thresholds, self.probabilities)
