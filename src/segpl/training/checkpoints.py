"""Checkpoints: the state to resume from, and the best weights on the validation subjects."""

from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from lightning import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor

from segpl.foundation.files import write_bytes
from segpl.rundir import BEST_CHECKPOINT, LAST_CHECKPOINT, WEIGHTS_FILE


def has_begun(directory: Path) -> bool:
    """Whether a training has left a checkpoint or its final weights here."""
    return (directory / LAST_CHECKPOINT).is_file() or (directory / WEIGHTS_FILE).is_file()


class Checkpoint(ModelCheckpoint):
    """A checkpoint after each validation, always under the same name.

    It can be moved together with its run directory.
    """

    STATE_NAME = "Kept"
    """The name of its state in checkpoint files. Runs that began with other class names use it."""

    def __init__(self, file: Path, monitor: str | None = None):
        super().__init__(
            file.parent,
            filename=file.stem,
            monitor=monitor,
            mode="max",
            save_on_train_epoch_end=True,
            enable_version_counter=False,
        )

    @property
    def state_key(self) -> str:
        """The key of its state in checkpoint files, by `STATE_NAME` instead of the class name."""
        return super().state_key.replace(type(self).__qualname__, self.STATE_NAME, 1)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best score, with all paths in this folder.

        Lightning would forget the score of a run directory that was moved.
        """
        state = {**state_dict, "dirpath": self.dirpath}
        for key, path in state_dict.items():
            if key.endswith("model_path"):
                state[key] = self._in_this_folder(path)
        state["best_k_models"] = {}
        for path, score in state_dict["best_k_models"].items():
            state["best_k_models"][self._in_this_folder(path)] = score
        super().load_state_dict(state)

    def _in_this_folder(self, path: str) -> str:
        """The file of the same name in this folder; an empty path stays empty."""
        if not path:
            return path
        return str(Path(str(self.dirpath)) / Path(path).name)


class BestCheckpoint(Checkpoint):
    """The checkpoint of the best validation so far."""

    STATE_NAME = "KeptBest"
    METRIC = "validation_iou"

    def __init__(self, file: Path):
        super().__init__(file, monitor=self.METRIC)

    def on_train_epoch_end(self, trainer: Trainer, learner: Any) -> None:
        """Save the weights if their validation was the best.

        Weights that the guard has just put in place were not validated. A resumed run ends the
        epoch of its checkpoint once more, without a validation.
        """
        if learner.validation_is_current and self.METRIC in trainer.callback_metrics:
            super().on_train_epoch_end(trainer, learner)


def checkpoint_callbacks(directory: Path, validates: bool) -> list[Checkpoint]:
    """The callbacks that save checkpoints; the best one only where there is a validation.

    The best comes first, so that the last checkpoint records it. Lightning's own `save_last` skips
    checkpoints that are not better.
    """
    last = Checkpoint(directory / LAST_CHECKPOINT)
    if not validates:
        return [last]
    return [BestCheckpoint(directory / BEST_CHECKPOINT), last]


def save_final_weights(directory: Path, validates: bool) -> None:
    """Write the weights that all later stages use: the best, or the last without a validation."""
    file = directory / LAST_CHECKPOINT
    best = directory / BEST_CHECKPOINT
    if validates and best.is_file():
        file = best
    checkpoint = torch.load(file, map_location="cpu", weights_only=True)
    weights = {name: weight.contiguous() for name, weight in model_weights(checkpoint).items()}
    write_bytes(directory / WEIGHTS_FILE, safetensors.torch.save(weights))


def model_weights(checkpoint: dict[str, Any]) -> dict[str, Tensor]:
    """The weights in a checkpoint, under the names that the model itself uses."""
    state = checkpoint["state_dict"]
    return {name.removeprefix("model."): weight for name, weight in state.items()}
