"""A trained model, read from its run directory."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from segpl.data.cases import Task
from segpl.foundation.errors import UserError
from segpl.rundir import RUN_FILE, WEIGHTS_FILE
from segpl.settings.run import Run, read_task

LARGEST_WEIGHT = 1e9
"""Trained weights are below 1000; a damaged bit of the exponent makes them huge."""


def load_model(directory: Path, run: Run) -> nn.Module:
    """The trained model of a run, in evaluation mode.

    It has the best weights on the validation cases or, without any, the last.
    """
    file = directory / WEIGHTS_FILE
    if not file.is_file():
        raise UserError(
            f"{directory} has no {WEIGHTS_FILE} because its training has not ended: "
            "continue it with segpl train --resume."
        )
    task = read_task(directory)
    try:
        weights = load_file(file)
    except SafetensorError:
        weights = {}  # unreadable: the check of shapes below refuses it
    if _shapes(weights) != _expected_shapes(run, task):
        raise UserError(
            f"{file} does not hold the weights that {RUN_FILE} describes: train the run again."
        )
    if not all(_is_sound(weight) for weight in weights.values()):
        raise UserError(
            f"{file} holds weights that are NaN, infinite or above {LARGEST_WEIGHT:g}: "
            "copy it again, or train the run again."
        )
    model = run.build(task)
    model.load_state_dict(weights)
    return model.eval()


def _is_sound(weight: Tensor) -> bool:
    """Whether all numbers are finite and not huge; a comparison with NaN is false."""
    return bool((weight.abs() < LARGEST_WEIGHT).all())


def _expected_shapes(run: Run, task: Task) -> dict[str, torch.Size]:
    """The shapes of a run's weights. No memory is taken for them, however many they are."""
    with torch.device("meta"):
        model = run.build(task)
    return _shapes(model.state_dict())


def _shapes(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Size]:
    return {name: weight.shape for name, weight in weights.items()}
