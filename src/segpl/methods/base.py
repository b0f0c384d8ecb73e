"""What all methods have in common: hyper-parameters, and how to build, train and predict."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float
from pydantic import Field, NonNegativeFloat
from torch import Tensor, nn

from segpl.em.bound import Bound
from segpl.em.broadcasting import append_axes
from segpl.em.objectives import IMAGE_OBJECTIVES, OBJECTIVES, ramp
from segpl.em.posteriors import Posterior
from segpl.em.priors import Fixed, Normal, Prior
from segpl.em.tensors import Images, Labels, Probabilities, Scalar, VoxelWeights
from segpl.em.types import Batch, Losses, Predicted
from segpl.foundation.named import Named
from segpl.networks.threshold_head import ThresholdHead
from segpl.networks.unet import UNet

Model = Any
"""The weights: whatever a method's `build` returned."""
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Method(Named, ABC):
    """A method holds hyper-parameters only; the weights live in the model that `build` returns."""

    objective: Literal["dice", "dice+bce", "batch-dice+bce"] = "batch-dice+bce"
    """The loss between a prediction and a label: dice is the paper's, dice+bce adds the binary
    cross-entropy, and batch-dice+bce takes the Dice of all images of a step together."""

    @classmethod
    def name(cls) -> str:
        """The method's name in `run.yaml` and on the command line: the name of its file."""
        file = cls.__module__.rpartition(".")[2]
        return file.replace("_", "-")

    @classmethod
    def applicable(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """Those of the settings, given for no method in particular, that this method has."""
        known = {setting.name for setting in fields(cls)}
        return {key: value for key, value in settings.items() if key in known}

    @property
    def batches_per_step(self) -> int:
        """Batches that `losses` gets joined to one, each with its own order of the images."""
        return 1

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """The model to train; each call of `network` makes a new theta."""
        return network()

    @abstractmethod
    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """The loss terms of one step, after a share of `progress` (0 to 1) of the run."""

    def segmentation_loss(
        self, p: Probabilities, y: Labels, where: VoxelWeights | None = None
    ) -> Scalar:
        """f(p, y) of Eq. 3: how far a prediction is from a label; `where` weights the voxels."""
        return OBJECTIVES[self.objective](p, y, where)

    def after_step(self, model: Model) -> None:
        """Called after each optimiser step; methods that average weights over time do it here."""

    def predictor(self, model: Model) -> nn.Module:
        """The network that predicts: the model itself, unless a method trains more than one."""
        return model

    def predict(self, model: Model, x: Images, samples: int = 1) -> Predicted:
        """The probability, and `samples` predictions for the mask.

        For a method without uncertainty, all samples are the probability itself.
        """
        p = self.predictor(model)(x).sigmoid()
        return Predicted(p, p.expand(samples, *p.shape))

    def cuts_at_half(self) -> bool:
        """Whether the mean of the samples is the probability, so that a mask is where p > 1/2."""
        return True

    def uses_unlabelled(self) -> bool:
        """Whether the method needs unlabelled images."""
        return False

    def learns_from_unlabelled(self) -> bool:
        """Whether unlabelled images influence the weights, which they may not if alpha is 0."""
        return self.uses_unlabelled()

    def draws_views(self) -> bool:
        """Whether the method needs plain unlabelled images, and makes strong views by itself.

        Other methods get unlabelled images in views as strong as those of the labelled images.
        """
        return False

    def unlabelled_weight(self, progress: float) -> float:
        """The weight of the unlabelled images at this share of the run."""
        return 0.0

    def with_alpha_times(self, factor: float) -> "Method":
        """The same method with alpha, the weight of the unlabelled images, times `factor`."""
        return self


@dataclass(frozen=True)
class SemiSupervised(Method):
    """A method with a second term for the unlabelled images, weighted by alpha (Eq. 3)."""

    alpha: NonNegativeFloat = 0.05
    """Weight of the unlabelled images."""
    start: Share = 0.0
    """Share of the run during which unlabelled images have weight 0."""
    warm_up: Share = 0.0
    """Share of the run over which the weight then rises linearly from 0 to alpha."""

    def uses_unlabelled(self) -> bool:
        """Yes."""
        return True

    def learns_from_unlabelled(self) -> bool:
        """Yes, unless alpha is 0."""
        return self.alpha > 0

    def unlabelled_weight(self, progress: float) -> float:
        """Alpha, times the warm-up."""
        return self.alpha * ramp(progress, self.start, self.warm_up)

    def with_alpha_times(self, factor: float) -> "Method":
        """The same method with a smaller or larger alpha."""
        return replace(self, alpha=factor * self.alpha)

    def labelled_losses(self, network: nn.Module, batch: Batch) -> Losses:
        """L_L of Eq. 3 alone, for the steps before unlabelled images count."""
        p_l = network(batch.x_l).sigmoid()
        return Losses({"labelled": self.segmentation_loss(p_l, batch.y_l, batch.counted_l)})


@dataclass(frozen=True)
class Thresholded(SemiSupervised):
    """A method whose pseudo-labels are cut at a threshold T with a prior and a posterior."""

    prior: Prior = field(default_factory=Normal)
    """The prior on the threshold T: normal, beta, uniform, categorical, confident or fixed, each
    with settings of its own."""
    kl_weight: NonNegativeFloat = 1.0
    """Weight of KL(p(T) || q(beta)), which keeps the posterior near the prior; 1 is the paper's."""

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """theta, and phi on its features."""
        theta = network()
        phi = ThresholdHead(theta, self.prior.initial_outputs)
        return nn.ModuleDict({"theta": theta, "phi": phi})

    def predictor(self, model: Model) -> UNet:
        """The network theta."""
        return model["theta"]

    def learns_from_unlabelled(self) -> bool:
        """Yes: phi learns from them, whatever alpha is."""
        return True

    @property
    def bound(self) -> Bound:
        """The bound of Eq. 7, in which the M-step's objective is that of one image and class."""
        return Bound(IMAGE_OBJECTIVES[self.objective], self.kl_weight)

    def posterior(
        self, model: Model, features: Float[Tensor, "N F *space"], p: Probabilities
    ) -> Posterior:
        """p(T | x) (Eq. 5 and 6) of the images that p belongs to.

        They are the last of the images that the features belong to. phi reads the features of all
        images, because the gradient of a slice of the features would be a copy of all of them.
        """
        first = len(features) - len(p)
        phi_outputs = model["phi"](features)
        outputs_of_p = [output[first:] for output in phi_outputs]
        return self.prior.posterior(outputs_of_p, p, self.bound)

    def cuts_at_half(self) -> bool:
        """Only if T is 1/2 for every image."""
        return self.prior == Fixed(threshold=0.5)

    def predict(self, model: Model, x: Images, samples: int = 1) -> Predicted:
        """The probability of theta, and samples for thresholds T spread evenly over the posterior.

        A single T is the median. Subtracting logit(T) from the logits moves T to 1/2, so the mask
        of a sample is where p > T. A shifted p is no probability, hence it is not reported.
        """
        network = self.predictor(model)
        features = network.features(x)
        logits = network.head(features)
        p = logits.sigmoid()
        posterior = self.posterior(model, features, p)
        logits_of_t = []
        for sample in range(samples):
            level = torch.full_like(posterior.mean, (sample + 0.5) / samples)
            logit_of_t = posterior.quantile(level).logit()
            logits_of_t.append(append_axes(logit_of_t, like=logits))
        return Predicted(p, (logits - torch.stack(logits_of_t)).sigmoid())
