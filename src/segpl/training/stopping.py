"""Stops a training in good order when a signal asks for it."""

import signal
from pathlib import Path
from typing import Any

from lightning import Callback, Trainer

from segpl.em.types import Batch
from segpl.foundation.signals import Stopped, StopRequest


class StopOnSignal(Callback):
    """Saves a checkpoint after SIGINT, SIGTERM or SIGHUP, and raises `Stopped`.

    The step in progress, or the validation, ends first.
    """

    def __init__(self, checkpoint: Path):
        """`checkpoint` is not the last one: the guard may return to that of the last validation."""
        self.checkpoint = checkpoint
        self.request = StopRequest()

    def on_train_start(self, trainer: Trainer, learner: Any) -> None:
        """Listen to signals; from here on Lightning's own handlers are replaced."""
        self.request.listen()

    def on_train_batch_start(self, trainer: Trainer, learner: Any, batch: Batch, _: int) -> None:
        """Stop before the next step, if a signal came during the last or the validation."""
        if not self._is_requested(trainer):
            return
        if not learner.is_at_validation():  # otherwise the last checkpoint has this step
            trainer.save_checkpoint(self.checkpoint)
        raise self.reason()

    def on_train_end(self, trainer: Trainer, learner: Any) -> None:
        """Leave signals as they were."""
        self.request.stop_listening()

    def on_exception(self, trainer: Trainer, learner: Any, exception: BaseException) -> None:
        """Leave signals as they were."""
        self.request.stop_listening()

    def reason(self) -> Stopped:
        """Which signal came, or came to another process of this training."""
        return Stopped(self.request.number or signal.SIGTERM)

    def _is_requested(self, trainer: Trainer) -> bool:
        """Whether a signal came to any process of the training: all must stop at one step."""
        requested = self.request.number is not None
        if trainer.world_size == 1:
            return requested
        return trainer.strategy.reduce_boolean_decision(requested, all=False)
