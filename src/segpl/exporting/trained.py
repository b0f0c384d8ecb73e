"""A trained run read from its directory, and its prediction as one torch module."""

from pathlib import Path
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from segpl.data.cases import Task
from segpl.inference.model import load_model
from segpl.methods.base import Method
from segpl.settings.run import Run, read_run, read_task


class Trained(NamedTuple):
    """The settings, the task and the best weights of a run directory."""

    run: Run
    task: Task
    model: nn.Module


def read_trained(directory: Path) -> Trained:
    """Read a run directory; the weights need no gradient."""
    run = read_run(directory)
    model = load_model(directory, run).requires_grad_(False)
    return Trained(run, read_task(directory), model)


class PredictionModule(nn.Module):
    """The prediction of a method as a module: prepared windows in, probabilities out.

    Learnt thresholds and ensembles are part of it, so that the mask is always p > 1/2.
    """

    def __init__(self, method: Method, model: nn.Module):
        super().__init__()
        self.method = method
        self.model = model

    def forward(self, image: Float[Tensor, "B C *space"]) -> Float[Tensor, "B K *space"]:
        """Probabilities of each region."""
        return self.method.predict(self.model, image)[0]


def prediction_module(trained: Trained) -> PredictionModule:
    """The prediction of a trained run, in evaluation mode."""
    return PredictionModule(trained.run.method, trained.model).eval()
