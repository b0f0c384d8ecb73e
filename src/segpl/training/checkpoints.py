"""Checkpoints: the state to resume from, and the best weights on the validation subjects."""

import pickle
import zipfile
import zlib
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from lightning import Trainer
from lightning.fabric.plugins import CheckpointIO
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor

from segpl.foundation.errors import UserError
from segpl.foundation.files import draft, move_file, write_bytes
from segpl.foundation.progress import console
from segpl.rundir import (
    BEST_CHECKPOINT,
    LAST_CHECKPOINT,
    PREVIOUS_CHECKPOINT,
    STOPPED_CHECKPOINT,
    WEIGHTS_FILE,
    is_trained,
)


def has_begun(directory: Path) -> bool:
    """Whether a training has left a checkpoint or its final weights here."""
    return has_checkpoint(directory) or is_trained(directory)


def has_checkpoint(directory: Path) -> bool:
    """Whether there is a state to resume from, damaged or not."""
    names = (LAST_CHECKPOINT, PREVIOUS_CHECKPOINT, STOPPED_CHECKPOINT)
    return any((directory / name).is_file() for name in names)


def recover_last_checkpoint(directory: Path) -> None:
    """Put the previous checkpoint in the place of the last, if that is missing or damaged.

    If both are damaged, that is an error: to begin again from the first step may take days, and is
    for the user to decide.
    """
    last = directory / LAST_CHECKPOINT
    previous = directory / PREVIOUS_CHECKPOINT
    if is_complete(last) or not (last.is_file() or previous.is_file()):
        return
    if not is_complete(previous):
        raise _unreadable(last)
    if last.is_file():
        console.print(f"{last} is damaged: the training continues from the checkpoint before.")
    move_file(previous, last)


def newest_checkpoint(directory: Path) -> Path | None:
    """The checkpoint from which a training resumes: that of the latest step; None without any."""
    last = directory / LAST_CHECKPOINT
    stopped = directory / STOPPED_CHECKPOINT
    if not stopped.is_file():
        return last if last.is_file() else None
    if not is_complete(stopped):
        console.print(f"{stopped} is damaged: the training continues from the last validation.")
        return last if last.is_file() else None
    if not last.is_file():
        return stopped
    return max(stopped, last, key=_step)


def _step(checkpoint: Path) -> int:
    return read_checkpoint(checkpoint)["global_step"]


def is_complete(checkpoint: Path) -> bool:
    """Whether a file holds all that torch wrote to it: a zip archive with checksums."""
    try:
        with zipfile.ZipFile(checkpoint) as archive:
            return archive.testzip() is None
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile, zlib.error):
        return False


def read_checkpoint(file: Path) -> dict[str, Any]:
    """The content of a checkpoint, on the CPU. Nothing but tensors and plain values is loaded."""
    if not is_complete(file):
        raise _unreadable(file)
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError):  # an archive, but none of ours
        raise _unreadable(file) from None


def _unreadable(file: Path) -> UserError:
    return UserError(
        f"{file} cannot be read: delete {file.parent}, and --resume begins again from the first "
        "step."
    )


def end_epoch(checkpoint: dict[str, Any]) -> None:
    """Let a checkpoint between two validations look as if Lightning's epoch had ended there.

    Its epochs are the steps between validations. It cannot continue within one: the resumed run
    begins a new epoch, which has the steps that are left until the validation.
    """
    loops = checkpoint["loops"]["fit_loop"]
    epochs = loops["epoch_progress"]
    for counts in (epochs["total"], epochs["current"]):
        counts.update(dict.fromkeys(counts, counts["ready"]))
    steps = loops["epoch_loop.batch_progress"]
    total = steps["total"]
    total.update(dict.fromkeys(total, total["completed"]))
    current = steps["current"]
    current.update(dict.fromkeys(current, 0))
    steps["is_last_batch"] = False


class DurableFiles(CheckpointIO):
    """Writes checkpoints as every other file is written; Lightning alone would go through TMPDIR.

    When the last checkpoint is replaced, it stays as the previous one.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        """Write a checkpoint; a kill at any moment leaves one that is complete."""
        file = Path(path)
        is_last = file.name == LAST_CHECKPOINT.name
        with draft(file) as temporary:
            torch.save(checkpoint, temporary)
            if is_last and file.is_file():
                move_file(file, file.with_name(PREVIOUS_CHECKPOINT.name))
        if is_last:  # it is newer
            file.with_name(STOPPED_CHECKPOINT.name).unlink(missing_ok=True)

    def load_checkpoint(
        self, path: str | Path, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """The content of a checkpoint."""
        return read_checkpoint(Path(path))

    def remove_checkpoint(self, path: str | Path) -> None:
        """Remove a checkpoint."""
        Path(path).unlink(missing_ok=True)


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
    checkpoint = read_checkpoint(file)
    weights = {name: weight.contiguous() for name, weight in model_weights(checkpoint).items()}
    write_bytes(directory / WEIGHTS_FILE, safetensors.torch.save(weights))


def model_weights(checkpoint: dict[str, Any]) -> dict[str, Tensor]:
    """The weights in a checkpoint, under the names that the model itself uses."""
    state = checkpoint["state_dict"]
    return {name.removeprefix("model."): weight for name, weight in state.items()}
