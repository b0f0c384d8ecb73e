"""The weights that a training starts from: drawn from the seed, or those of an earlier run."""

import hashlib
from pathlib import Path
from typing import Any

from torch import nn

from segpl.data.cases import Task
from segpl.foundation.errors import UserError
from segpl.inference.model import load_model
from segpl.rundir import LAST_CHECKPOINT, PROVENANCE_FILE, WEIGHTS_FILE, read_plain
from segpl.settings.run import Run, read_run, read_task


def initial_model(run: Run, task: Task) -> nn.Module:
    """The model before the first step."""
    model = run.build(task)
    if run.start_from is not None:
        earlier = load_model(run.start_from, read_run(run.start_from))
        model.load_state_dict(earlier.state_dict())
    return model


def check_earlier_run(run: Run, task: Task, directory: Path) -> None:
    """Refuse to start from a run of another task or network, or to resume from other weights."""
    if run.start_from is None:
        return
    earlier = read_run(run.start_from)
    own_weights = _shapes(run.build(task))
    earlier_weights = _shapes(load_model(run.start_from, earlier))
    if read_task(run.start_from) != task:
        raise UserError(
            f"{run.start_from} was trained on other channels or regions than {run.data} has: "
            "train without --from."
        )
    if own_weights != earlier_weights:
        raise UserError(
            f"{run.start_from} has another network ({_describe(earlier)}) than this run "
            f"({_describe(run)}): leave these settings out, or train without --from."
        )
    _check_same_weights(run.start_from, directory)


def record_of_earlier_run(run: Run) -> dict[str, Any]:
    """What provenance says about the run whose weights are the first ones; empty without one."""
    if run.start_from is None:
        return {}
    weights = weights_digest(run.start_from)
    return {"start_from": {"run": str(run.start_from), "weights": weights}}


def weights_digest(directory: Path) -> str:
    """A hash of the weights of a trained run."""
    digest = hashlib.sha256((directory / WEIGHTS_FILE).read_bytes())
    return f"sha256:{digest.hexdigest()}"


def _check_same_weights(start_from: Path, directory: Path) -> None:
    """Refuse to resume when the earlier run was trained again in the meantime."""
    if not (directory / LAST_CHECKPOINT).is_file():
        return
    first_entry = read_plain(directory / PROVENANCE_FILE)[0]
    if first_entry["start_from"]["weights"] != weights_digest(start_from):
        raise UserError(
            f"{start_from} has other weights than when {directory} was started: start a new run."
        )


def _shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weight.shape) for name, weight in model.state_dict().items()}


def _describe(run: Run) -> str:
    """The settings that determine the weights' shapes."""
    method = run.method.name()
    patch = " x ".join(str(side) for side in run.patch)
    return f"method {method}, channels {run.channels}, patch {patch}"
