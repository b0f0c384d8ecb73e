"""A trained run read from its directory, and its prediction as one torch module."""

from pathlib import Path
from typing import NamedTuple

import torch
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
    directory: Path

    @property
    def outputs(self) -> list[str]:
        """What each channel of the exported prediction is; the last K make the masks."""
        regions = [region.name for region in self.task.regions]
        if self.run.method.cuts_at_half():
            return regions
        return [*regions, *(f"{region}, mask" for region in regions)]


def read_trained(directory: Path) -> Trained:
    """Read a run directory; the weights need no gradient."""
    run = read_run(directory)
    model = load_model(directory, run).requires_grad_(False)
    return Trained(run, read_task(directory), model, directory)


class PredictionModule(nn.Module):
    """The prediction of a method as a module: prepared windows in, probabilities out.

    If learnt thresholds cut the masks, as many channels for the masks follow. So the masks are
    always where the last K channels exceed 1/2.
    """

    def __init__(self, method: Method, model: nn.Module):
        super().__init__()
        self.method = method
        self.model = model

    def forward(self, image: Float[Tensor, "B C *space"]) -> Float[Tensor, "B N *space"]:
        """The channels that `Trained.outputs` names."""
        predicted = self.method.predict(self.model, image)
        if self.method.cuts_at_half():
            return predicted.p
        return torch.cat([predicted.p, predicted.samples[0]], dim=1)


def prediction_module(trained: Trained) -> PredictionModule:
    """The prediction of a trained run, in evaluation mode."""
    return PredictionModule(trained.run.method, trained.model).eval()
