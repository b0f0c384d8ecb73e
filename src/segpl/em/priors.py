"""Priors q(beta) on the threshold T, each with the form of its posterior p(T | x)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field, PositiveFloat
from torch import Tensor, distributions

from segpl.em.bound import Bound
from segpl.em.posteriors import (
    BetaPosterior,
    CategoricalPosterior,
    PointPosterior,
    Posterior,
    TruncatedNormalPosterior,
    UniformPosterior,
)
from segpl.em.tensors import PerClass, Probabilities
from segpl.em.threshold_losses import cut_losses
from segpl.foundation.errors import UserError
from segpl.foundation.named import Named

PhiOutputs = Sequence[PerClass]
Probability = Annotated[float, Field(gt=0, lt=1)]


@dataclass(frozen=True)
class Prior(Named, ABC):
    """q(beta), and how it becomes a posterior of the same form."""

    @property
    def initial_outputs(self) -> tuple[float, ...]:
        """What phi must output for the posterior to equal the prior: phi starts there.

        There is one value per output of phi, and none for a prior that needs no phi.
        """
        return ()

    @abstractmethod
    def posterior(self, phi_outputs: PhiOutputs, p: Probabilities, bound: Bound) -> Posterior:
        """p(T | x) from phi's outputs or, if Eq. 4 is a finite sum, from the probabilities p.

        A finite sum gives the very posterior that maximises `bound`.
        """


@dataclass(frozen=True)
class Fixed(Prior):
    """T is a fixed number, as in plain SegPL (Eq. 1)."""

    threshold: Probability = 0.5
    """The value of T."""

    def posterior(self, phi_outputs: PhiOutputs, p: Probabilities, bound: Bound) -> Posterior:
        """All probability on the fixed T."""
        return PointPosterior(self.threshold, p)


@dataclass(frozen=True)
class Uniform(Prior):
    """T is uniform on (0, 1): a voxel becomes foreground as often as its probability says.

    The mean label over many draws is the probability itself, so learning from the draws neither
    sharpens nor shifts it.
    """

    def posterior(self, phi_outputs: PhiOutputs, p: Probabilities, bound: Bound) -> Posterior:
        """The prior, for every image."""
        return UniformPosterior(p.new_full(p.shape[:2], 0.5))


@dataclass(frozen=True)
class Gaussian(Prior):
    """T ~ N(mu_beta, sigma_beta), where mu_beta may depend on the image."""

    mean: Probability = 0.5
    """mu_beta, the mean of T; the paper uses 0.5 for BRATS and 0.4 for CARVE."""
    deviation: PositiveFloat = 0.1
    """sigma_beta, the standard deviation of T."""

    @property
    def initial_outputs(self) -> tuple[float, ...]:
        """The logit of mu_beta and the logarithm of sigma_beta."""
        logit_mu = log(self.mean / (1 - self.mean))
        log_sigma = log(self.deviation)
        return logit_mu, log_sigma

    def posterior(self, phi_outputs: PhiOutputs, p: Probabilities, bound: Bound) -> Posterior:
        """N(mu, sigma) (Eq. 5 and 6), whose KL is that of Eq. 8.

        Unlike in Eq. 5, phi outputs the logit of mu: T cuts a probability, so mu lies in (0, 1).
        """
        logit_mu, log_sigma = phi_outputs
        mu = logit_mu.sigmoid()
        sigma = log_sigma.exp()
        return TruncatedNormalPosterior(mu, sigma, self.mu_beta(p), self.deviation)

    @abstractmethod
    def mu_beta(self, p: Probabilities) -> PerClass:
        """The prior mean of T for each image and class."""


@dataclass(frozen=True)
class Normal(Gaussian):
    """The paper's prior: T ~ N(mean, deviation)."""

    def mu_beta(self, p: Probabilities) -> PerClass:
        """`mean`, for every image."""
        return p.new_full(p.shape[:2], self.mean)


@dataclass(frozen=True)
class Confident(Gaussian):
    """A Normal prior whose mean lies half way between `mean` and the middle of the image's range.

    A network that never exceeds 0.4 marks its foreground by probabilities near 0.4, not above 0.5.
    The prior mean still moves only half way, because an image may hold no foreground at all.
    """

    def mu_beta(self, p: Probabilities) -> PerClass:
        """The mean of `mean` and the middle between smallest and largest probability."""
        voxels = p.detach().flatten(2)
        middle = (voxels.amin(2) + voxels.amax(2)) / 2
        return (self.mean + middle) / 2


@dataclass(frozen=True)
class Beta(Prior):
    """T ~ Beta(a, b), a distribution on (0, 1)."""

    a: PositiveFloat = 12.0
    """First shape parameter; a = b = 12 has the paper's mean 0.5 and standard deviation 0.1."""
    b: PositiveFloat = 12.0
    """Second shape parameter."""

    @property
    def initial_outputs(self) -> tuple[float, ...]:
        """The logarithms of both shape parameters."""
        return log(self.a), log(self.b)

    def posterior(self, phi_outputs: PhiOutputs, p: Probabilities, bound: Bound) -> Posterior:
        """Beta(a, b), where phi outputs log a and log b."""
        log_a, log_b = phi_outputs
        a = log_a.exp()
        b = log_b.exp()
        prior_a = torch.tensor(self.a).to(a)
        prior_b = torch.tensor(self.b).to(a)
        return BetaPosterior(a, b, prior=distributions.Beta(prior_a, prior_b))


@dataclass(frozen=True)
class Categorical(Prior):
    """T takes one of a few values, so the E-step (Eq. 4) is an exact sum and needs no phi.

    The likelihood of an image under a threshold is exp(-loss) of the pseudo-label that it cuts,
    where the loss is the M-step's own objective for one image and class. If the KL has weight w,
    the posterior that maximises Eq. 7 takes the likelihood to the power 1 / w.
    """

    thresholds: tuple[Probability, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    """The values that T can take, in rising order."""
    weights: tuple[PositiveFloat, ...] = ()
    """Prior weight of each value, up to a common factor; all equal by default."""

    def __post_init__(self) -> None:
        """Refuse thresholds out of order, and weights that do not match them."""
        rising = sorted(set(self.thresholds))
        if not self.thresholds or list(self.thresholds) != rising:
            raise UserError("categorical: give thresholds in rising order.", where=("thresholds",))
        if self.weights and len(self.weights) != len(self.thresholds):
            message = "categorical: give as many weights as thresholds, or none."
            raise UserError(message, where=("weights",))

    def posterior(self, phi_outputs: PhiOutputs, p: Probabilities, bound: Bound) -> Posterior:
        """p(T = i | x) for each threshold i (Eq. 4)."""
        thresholds = p.new_tensor(self.thresholds)
        losses = cut_losses(p, thresholds, bound.objective)
        log_likelihood = -losses / max(bound.kl_weight, 1e-6)
        log_prior = self._log_prior(p)
        probabilities = (log_likelihood + log_prior).softmax(-1)
        return CategoricalPosterior(thresholds, probabilities, log_prior.exp())

    def _log_prior(self, p: Tensor) -> Float[Tensor, " N"]:
        """Values of log p(T = i), one for each threshold i, on the device of p."""
        weights = self.weights or [1.0] * len(self.thresholds)
        return p.new_tensor(weights).log().log_softmax(0)
