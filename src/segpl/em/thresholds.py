"""What is believed about a threshold T before an image is seen, and the posterior after it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Annotated

import numpy as np
import scipy.stats
import torch
from jaxtyping import Float, Int
from pydantic import Field, PositiveFloat
from torch import Tensor, distributions
from torch.distributions import kl_divergence

from segpl.em.objectives import dice_per_image
from segpl.em.pseudo_labels import pseudo_label
from segpl.foundation.draws import Purpose, uniform
from segpl.foundation.errors import UserError
from segpl.foundation.named import Named

Probability = Annotated[float, Field(gt=0, lt=1)]
EDGE = 1e-4
"""T stays this far inside (0, 1): at the very ends its logit is infinite."""


class Posterior(ABC):
    """p(T | x), one T per image and class."""

    kl: Float[Tensor, "B K"]
    """KL(p(T) || q(beta))."""
    mean: Float[Tensor, "B K"]
    deviation: Float[Tensor, "B K"]

    @abstractmethod
    def quantile(self, level: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """The T below which `level` of the posterior lies."""

    def draw(self, seeds: Int[Tensor, " B"]) -> Float[Tensor, "B K"]:
        """One T per image and class, from the image's own seed."""
        return self.quantile(
            uniform(seeds, self.mean.shape[1], purpose=Purpose.THRESHOLD).to(self.mean)
        )


@dataclass(frozen=True)
class Prior(Named, ABC):
    """q(beta), and how phi's numbers make a posterior of the same kind."""

    @property
    def starts(self) -> tuple[float, ...]:
        """Where phi's outputs start, so that the first posterior is the prior; none where no network is needed."""
        return ()

    @abstractmethod
    def posterior(
        self,
        numbers: Sequence[Float[Tensor, "B K"]],
        p: Float[Tensor, "B K *space"],
        kl_weight: float,
    ) -> Posterior:
        """p(T | x) from phi's numbers or, where Eq. 4 can be summed, from the probabilities themselves."""


@dataclass(frozen=True)
class Fixed(Prior):
    """T is known: plain SegPL (Eq. 1)."""

    threshold: Probability = 0.5
    """T."""

    def posterior(self, numbers: Sequence[Tensor], p: Tensor, kl_weight: float) -> Posterior:
        """All of it on one point."""
        return Point(p.new_full(p.shape[:2], self.threshold))


@dataclass(frozen=True)
class Uniform(Prior):
    """Any T in (0, 1) is as likely as another: a drawn label is foreground as often as its probability says.

    Its mean over T is the probability itself, so what is learnt from many draws neither sharpens it nor moves it.
    """

    def posterior(self, numbers: Sequence[Tensor], p: Tensor, kl_weight: float) -> Posterior:
        """The same for all images."""
        return Even(p.new_full(p.shape[:2], 0.5))


@dataclass(frozen=True)
class Gaussian(Prior):
    """T ~ N(centre, deviation), with a centre that may depend on the image."""

    mean: Probability = 0.5
    """mu_beta: 0.5 for BRATS and 0.4 for CARVE in the paper."""
    deviation: PositiveFloat = 0.1
    """sigma_beta."""

    @property
    def starts(self) -> tuple[float, ...]:
        """Mu passes a sigmoid, because a threshold on a probability lies in (0, 1); sigma is an exponential."""
        return log(self.mean / (1 - self.mean)), log(self.deviation)

    def posterior(self, numbers: Sequence[Tensor], p: Tensor, kl_weight: float) -> Posterior:
        """N(mu, sigma) (Eq. 6) and its KL (Eq. 8)."""
        mu, log_sigma = numbers
        return CutNormal(mu.sigmoid(), log_sigma.exp(), self.centre(p), self.deviation)

    @abstractmethod
    def centre(self, p: Float[Tensor, "B K *space"]) -> Float[Tensor, "B K"]:
        """mu_beta of each image and class."""


@dataclass(frozen=True)
class Normal(Gaussian):
    """The paper's prior: T ~ N(mean, deviation)."""

    def centre(self, p: Tensor) -> Tensor:
        """The same for all."""
        return p.new_full(p.shape[:2], self.mean)


@dataclass(frozen=True)
class Confident(Gaussian):
    """A Normal prior that follows the model's confidence: its mean moves half way to the middle of an image's range.

    A network that never exceeds 0.4 says where its foreground is by what lies near 0.4, not by what exceeds 0.5. The
    other half stays at `mean`, because an image may hold no foreground at all.
    """

    def centre(self, p: Tensor) -> Tensor:
        """Half `mean`, half the middle between the smallest and the largest probability."""
        flat = p.detach().flatten(2)
        return (self.mean + (flat.amin(2) + flat.amax(2)) / 2) / 2


@dataclass(frozen=True)
class Beta(Prior):
    """T ~ Beta(a, b): lives on (0, 1) by itself."""

    a: PositiveFloat = 12.0
    """The first shape; with b = 12 the deviation is 0.1, as the paper's Normal has it."""
    b: PositiveFloat = 12.0
    """The second shape."""

    @property
    def starts(self) -> tuple[float, ...]:
        """The logarithms of the two shapes."""
        return log(self.a), log(self.b)

    def posterior(self, numbers: Sequence[Tensor], p: Tensor, kl_weight: float) -> Posterior:
        """Beta(a, b) of each image and class."""
        a, b = (number.exp() for number in numbers)
        return BetaPosterior(
            a, b, distributions.Beta(torch.tensor(self.a).to(a), torch.tensor(self.b).to(a))
        )


@dataclass(frozen=True)
class Categorical(Prior):
    """T on a grid, where the sum of Eq. 4 is finite: the E-step is exact and needs no network.

    The likelihood of an image under a threshold is exp(-Dice loss) of the pseudo-label that it implies: the M-step's
    own objective. With the KL weighted by w the exact minimiser takes the likelihood to the power 1/w.
    """

    thresholds: tuple[Probability, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    """The values that T can take."""
    weights: tuple[PositiveFloat, ...] = ()
    """How likely each is beforehand, up to a factor; all alike by default."""

    def __post_init__(self) -> None:
        """Refuse grids that mean nothing."""
        if list(self.thresholds) != sorted(set(self.thresholds)) or not self.thresholds:
            raise UserError("categorical: give thresholds in rising order.", where=("thresholds",))
        if self.weights and len(self.weights) != len(self.thresholds):
            raise UserError(
                "categorical: give as many weights as thresholds, or none.", where=("weights",)
            )

    def posterior(self, numbers: Sequence[Tensor], p: Tensor, kl_weight: float) -> Posterior:
        """p(T = i | x) (Eq. 4)."""
        p = p.detach()
        losses = [dice_per_image(p, pseudo_label(p, threshold)) for threshold in self.thresholds]
        prior = p.new_tensor(self.weights or [1.0] * len(self.thresholds)).log().log_softmax(0)
        likelihood = -torch.stack(losses, dim=-1) / max(kl_weight, 1e-6)
        return GridPosterior(
            p.new_tensor(self.thresholds), (likelihood + prior).softmax(-1), prior.exp()
        )


class Point(Posterior):
    """No spread at all."""

    def __init__(self, threshold: Tensor):
        self.mean, self.deviation, self.kl = (
            threshold,
            torch.zeros_like(threshold),
            torch.zeros_like(threshold),
        )

    def quantile(self, level: Tensor) -> Tensor:
        """T."""
        return self.mean


class Even(Posterior):
    """The uniform distribution on (0, 1)."""

    def __init__(self, middle: Tensor):
        self.mean, self.deviation, self.kl = (
            middle,
            torch.full_like(middle, 12**-0.5),
            torch.zeros_like(middle),
        )

    def quantile(self, level: Tensor) -> Tensor:
        """The level itself."""
        return level.clamp(EDGE, 1 - EDGE)


class CutNormal(Posterior):
    """A Normal cut to (0, 1), which is where the paper lets T live; the KL is Eq. 8's, of the uncut ones."""

    def __init__(self, mu: Tensor, sigma: Tensor, centre: Tensor, deviation: float):
        self.normal, self.mean, self.deviation = distributions.Normal(mu, sigma), mu, sigma
        self.kl = kl_divergence(self.normal, distributions.Normal(centre, deviation))

    def quantile(self, level: Tensor) -> Tensor:
        """With a uniform level this is a draw, and its gradient reaches mu and sigma."""
        low, high = (
            self.normal.cdf(torch.zeros_like(level)),
            self.normal.cdf(torch.ones_like(level)),
        )
        # Away from 0 and 1, where the inverse has no slope: clamping afterwards would make of it 0 times infinity.
        return self.normal.icdf((low + level * (high - low)).clamp(1e-7, 1 - 1e-7)).clamp(
            EDGE, 1 - EDGE
        )


class BetaPosterior(Posterior):
    """Beta(a, b) of each image and class."""

    def __init__(self, a: Tensor, b: Tensor, prior: distributions.Beta):
        self.beta = distributions.Beta(a, b)
        self.mean, self.deviation, self.kl = (
            self.beta.mean,
            self.beta.stddev,
            kl_divergence(self.beta, prior),
        )

    def quantile(self, level: Tensor) -> Tensor:
        """From scipy, without a gradient: torch knows no inverse of Beta's distribution function."""
        a, b = (
            shape.detach().cpu().numpy()
            for shape in (self.beta.concentration1, self.beta.concentration0)
        )
        t = scipy.stats.beta.ppf(level.cpu().numpy(), a, b).astype(np.float32)
        return torch.from_numpy(t).to(level).clamp(EDGE, 1 - EDGE)

    def draw(self, seeds: Tensor) -> Tensor:
        """Torch's own draw, whose gradient reaches a and b; seeded image by image."""
        rows = []
        with torch.random.fork_rng():
            for seed, a, b in zip(
                seeds, self.beta.concentration1, self.beta.concentration0, strict=True
            ):
                torch.manual_seed(int(seed))
                rows.append(distributions.Beta(a, b).rsample())
        return torch.stack(rows).clamp(EDGE, 1 - EDGE)


class GridPosterior(Posterior):
    """A finite set of thresholds with their probabilities."""

    def __init__(
        self,
        thresholds: Float[Tensor, " T"],
        chances: Float[Tensor, "B K T"],
        prior: Float[Tensor, " T"],
    ):
        self.thresholds, self.chances = thresholds, chances
        self.mean = (chances * thresholds).sum(-1)
        self.deviation = ((chances * thresholds**2).sum(-1) - self.mean**2).clamp(min=0).sqrt()
        self.kl = kl_divergence(
            distributions.Categorical(chances), distributions.Categorical(prior)
        )

    def quantile(self, level: Tensor) -> Tensor:
        """The first threshold at which the probabilities add up to the level."""
        place = (
            (self.chances.cumsum(-1) < level[..., None]).sum(-1).clamp(max=len(self.thresholds) - 1)
        )
        return self.thresholds[place]
