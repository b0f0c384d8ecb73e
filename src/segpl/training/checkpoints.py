"""What a run keeps on its way: the state to go on from, and the weights that did best on the validation subjects."""

from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from lightning import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from segpl.foundation.files import write_bytes
from segpl.rundir import BEST_CHECKPOINT, LAST_CHECKPOINT, WEIGHTS_FILE


def begun(directory: Path) -> bool:
    """Whether a training has left weights here, to go on from or final ones."""
    return (directory / LAST_CHECKPOINT).is_file() or (directory / WEIGHTS_FILE).is_file()


class Kept(ModelCheckpoint):
    """A checkpoint after each validation, under one name, that may be moved with its run directory."""

    def __init__(self, file: Path, monitor: str | None = None):
        super().__init__(
            file.parent,
            filename=file.stem,
            monitor=monitor,
            mode="max",
            save_on_train_epoch_end=True,
            enable_version_counter=False,
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Lightning forgets the best score where the folder is another one; here the folder is always this one."""

        def here(path: str) -> str:
            return str(Path(str(self.dirpath)) / Path(path).name) if path else path

        paths = {key: here(path) for key, path in state_dict.items() if key.endswith("model_path")}
        best = {here(path): score for path, score in state_dict["best_k_models"].items()}
        super().load_state_dict(
            {**state_dict, **paths, "best_k_models": best, "dirpath": self.dirpath}
        )


class KeptBest(Kept):
    """The checkpoint of the best validation so far."""

    METRIC = "validation_iou"

    def __init__(self, file: Path):
        super().__init__(file, monitor=self.METRIC)

    def on_train_epoch_end(self, trainer: Trainer, learner: Any) -> None:
        """Keep the weights if their validation was the best.

        Not where the guard has just put others in their place: these were not validated. A resumed
        run ends the epoch of its checkpoint once more, without a validation.
        """
        if learner.validation_counts and self.METRIC in trainer.callback_metrics:
            super().on_train_epoch_end(trainer, learner)


def keepers(directory: Path, validates: bool) -> list[Kept]:
    """The best comes first, so that the last knows of it. Lightning's own `save_last` leaves out what is not better."""
    best = [KeptBest(directory / BEST_CHECKPOINT)] if validates else []
    return [*best, Kept(directory / LAST_CHECKPOINT)]


def keep_weights(directory: Path, validates: bool) -> None:
    """The weights that all later stages use: the best, or the last if no validation counted."""
    validated = validates and (directory / BEST_CHECKPOINT).is_file()
    file = directory / (BEST_CHECKPOINT if validated else LAST_CHECKPOINT)
    state = torch.load(file, map_location="cpu", weights_only=True)["state_dict"]
    weights = {name.removeprefix("model."): weight.contiguous() for name, weight in state.items()}
    write_bytes(directory / WEIGHTS_FILE, safetensors.torch.save(weights))
