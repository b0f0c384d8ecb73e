"""What every method is: a frozen set of hyper-parameters that says how to build, to learn and to predict."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from jaxtyping import Float
from pydantic import ConfigDict, Field, NonNegativeFloat
from torch import Tensor, nn

from segpl.losses import OBJECTIVES, ramp
from segpl.networks import UNet
from segpl.types import Batch, Losses

Model = Any
"""Whatever a method's `build` returned."""
Share = Annotated[float, Field(ge=0, le=1)]
Probability = Annotated[float, Field(gt=0, lt=1)]


@dataclass(frozen=True)
class Method(ABC):
    """Hyper-parameters only; the weights live in the model that `build` returns."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    objective: Literal["dice", "dice+bce"] = "dice+bce"
    """What a prediction is fitted to a label with. The paper's is dice; with few labels dice+bce trains more safely."""

    @classmethod
    def name(cls) -> str:
        """What the command line and `run.yaml` call the method: the name of its file."""
        return cls.__module__.rpartition(".")[2].replace("_", "-")

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """The weights to train; `network` makes a fresh theta each time it is called."""
        return network()

    @abstractmethod
    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """The terms to minimise at `progress` in [0, 1] of the run."""

    def predict(self, model: Model, x: Float[Tensor, "B C *space"], samples: int = 1) -> Float[Tensor, "S B K *space"]:
        """Probabilities whose mask is where they exceed 1/2; `samples` of them where the method is uncertain."""
        p = model(x).sigmoid()
        return p.expand(samples, *p.shape)

    def fit(self, p: Float[Tensor, "B K *space"], y: Float[Tensor, "B K *space"]) -> Float[Tensor, ""]:
        """The M-step's f(p, y): how far a prediction is from a label."""
        return OBJECTIVES[self.objective](p, y)


@dataclass(frozen=True)
class SemiSupervised(Method):
    """A method with a second term, for the images without a label."""

    alpha: NonNegativeFloat = 0.05
    """Weight of the unlabelled images."""
    start: Share = 0.0
    """Share of the run before the unlabelled images count at all."""
    warm_up: Share = 0.0
    """Share of the run over which alpha then rises linearly from 0."""

    def weight(self, progress: float) -> float:
        """Alpha at this moment of the run."""
        return self.alpha * ramp(progress, self.start, self.warm_up)
