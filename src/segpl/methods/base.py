"""What every method is: a frozen set of hyper-parameters that says how to build, to learn and to predict."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float
from pydantic import Field, NonNegativeFloat
from torch import Tensor, nn

from segpl.em.objectives import OBJECTIVES, ramp
from segpl.em.thresholds import Normal, Posterior, Prior
from segpl.em.types import Batch, Losses
from segpl.foundation.named import Named
from segpl.networks.threshold_head import ThresholdPosterior
from segpl.networks.unet import UNet

Model = Any
"""Whatever a method's `build` returned."""
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Method(Named, ABC):
    """Hyper-parameters only; the weights live in the model that `build` returns."""

    objective: Literal["dice", "dice+bce", "batch-dice+bce"] = "batch-dice+bce"
    """What a prediction is fitted to a label with: dice is the paper's, batch-dice that of all images of a step."""

    @classmethod
    def name(cls) -> str:
        """What the command line and `run.yaml` call the method: the name of its file."""
        return cls.__module__.rpartition(".")[2].replace("_", "-")

    @classmethod
    def adopt(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """Of settings that were given for no method in particular, those that this one has."""
        known = {each.name for each in fields(cls)}
        return {key: value for key, value in settings.items() if key in known}

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """The weights to train; `network` makes a fresh theta each time it is called."""
        return network()

    @abstractmethod
    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """The terms to minimise at `progress` in [0, 1] of the run."""

    def uses_unlabelled(self) -> bool:
        """Whether the method cannot do without unlabelled images."""
        return False

    def learns_from_unlabelled(self) -> bool:
        """Whether unlabelled images have a part in the weights; with an alpha of 0 they may be drawn in vain."""
        return self.uses_unlabelled()

    def draws_views(self) -> bool:
        """Whether the method changes the unlabelled images itself, because it must see the plain ones too.

        Other methods are given unlabelled images in views as strong as those of the labelled ones.
        """
        return False

    def unlabelled_weight(self, progress: float) -> float:
        """How much the unlabelled images count at this moment of the run."""
        return 0.0

    def cautious(self, factor: float) -> "Method":
        """The same method, listening less to the unlabelled images."""
        return self

    def after_step(self, model: Model) -> None:
        """What follows an optimiser step: a method that averages weights over time does it here."""

    def predict(
        self, model: Model, x: Float[Tensor, "B C *space"], samples: int = 1
    ) -> Float[Tensor, "S B K *space"]:
        """Probabilities whose mask is where they exceed 1/2; `samples` of them where the method is uncertain."""
        p = model(x).sigmoid()
        return p.expand(samples, *p.shape)

    def fit(
        self,
        p: Float[Tensor, "B K *space"],
        y: Float[Tensor, "B K *space"],
        where: Float[Tensor, "B #K *space"] | None = None,
    ) -> Float[Tensor, ""]:
        """The M-step's f(p, y): how far a prediction is from a label, over all voxels or `where` it is 1."""
        return OBJECTIVES[self.objective](p, y, where)


@dataclass(frozen=True)
class SemiSupervised(Method):
    """A method with a second term, for the images without a label."""

    alpha: NonNegativeFloat = 0.05
    """Weight of the unlabelled images."""
    start: Share = 0.0
    """Share of the run before the unlabelled images count at all."""
    warm_up: Share = 0.0
    """Share of the run over which alpha then rises linearly from 0."""

    def uses_unlabelled(self) -> bool:
        """It does."""
        return True

    def learns_from_unlabelled(self) -> bool:
        """Not if they weigh nothing."""
        return self.alpha > 0

    def unlabelled_weight(self, progress: float) -> float:
        """Alpha at this moment of the run."""
        return self.alpha * ramp(progress, self.start, self.warm_up)

    def cautious(self, factor: float) -> "Method":
        """With a smaller alpha."""
        return replace(self, alpha=factor * self.alpha)


@dataclass(frozen=True)
class Thresholded(SemiSupervised):
    """A method whose pseudo-labels are cut at a threshold T with a prior and, per image and class, a posterior."""

    prior: Prior = field(default_factory=Normal)
    """What is believed about T beforehand: normal, beta, uniform, categorical, confident, fixed; with settings."""
    kl_weight: NonNegativeFloat = 1.0
    """Weight of KL(p(T) || q(beta)); 1 is the bound of Eq. 7."""

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """theta, and phi on its features."""
        theta = network()
        return nn.ModuleDict({"theta": theta, "phi": ThresholdPosterior(theta, self.prior.starts)})

    def learns_from_unlabelled(self) -> bool:
        """Always: phi learns from them, whatever alpha is."""
        return True

    def theta(self, model: Model) -> UNet:
        """The network that labels and predicts."""
        return model["theta"]

    def posterior(self, model: Model, features: Tensor, p: Tensor) -> Posterior:
        """p(T | x) (Eq. 5 and 6) of the images that p is of: the last of those that the features are of.

        phi reads the few others too, because to cut the features in two would copy all of them on the way back.
        """
        return self.prior.posterior(
            [each[len(each) - len(p) :] for each in model["phi"](features)], p, self.kl_weight
        )

    def predict(
        self, model: Model, x: Float[Tensor, "B C *space"], samples: int = 1
    ) -> Float[Tensor, "S B K *space"]:
        """Probabilities seen from S thresholds, spread evenly over the posterior; a single one is its median.

        Subtracting logit(T) puts T where 1/2 was, so that the mask of a sample is where p > T.
        """
        features = self.theta(model).features(x)
        logits = self.theta(model).head(features)
        posterior = self.posterior(model, features, logits.sigmoid())
        levels = [
            torch.full_like(posterior.mean, (place + 0.5) / samples) for place in range(samples)
        ]
        t = torch.stack([posterior.quantile(level) for level in levels]).logit()
        return (logits - t.reshape(*t.shape, *[1] * (logits.ndim - 2))).sigmoid()


def watch(posterior: Posterior) -> dict[str, Tensor]:
    """What is logged of a posterior."""
    return {
        "posterior_mean": posterior.mean.mean(),
        "posterior_deviation": posterior.deviation.mean(),
    }
