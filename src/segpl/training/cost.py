"""What a method costs: parameters, floating-point operations, seconds and memory, measured in the run itself."""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning import Callback, Trainer
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from segpl.em.types import Batch
from segpl.foundation.device import device_name, has_gpu
from segpl.foundation.files import write_text
from segpl.foundation.memory import PeakMemory
from segpl.methods.base import Method


class Cost(Callback):
    """Times the steps and writes `cost.json` at the end."""

    def __init__(self, file: Path):
        self.file = file
        self.seconds: list[float] = []
        self.waited: list[float] = []
        self.ended: float | None = None
        self.memory = PeakMemory()

    def on_train_start(self, trainer: Trainer, learner: Any) -> None:
        """Watch the memory."""
        self.memory.start()

    def on_exception(self, trainer: Trainer, learner: Any, exception: BaseException) -> None:
        """Watch it no longer."""
        self.memory.stop()

    def on_train_batch_start(self, trainer: Trainer, learner: Any, batch: Batch, _: int) -> None:
        """Start the watch."""
        self.started = time.perf_counter()
        if self.ended is not None:
            self.waited.append(self.started - self.ended)

    def on_train_batch_end(
        self, trainer: Trainer, learner: Any, outputs: Any, batch: Batch, _: int
    ) -> None:
        """Stop it."""
        self.ended = time.perf_counter()
        self.seconds.append(self.ended - self.started)

    def on_train_epoch_end(self, trainer: Trainer, learner: Any) -> None:
        """What comes between two epochs is validation, not waiting for data."""
        self.ended = None

    def on_train_end(self, trainer: Trainer, learner: Any) -> None:
        """Write what was measured; the median, because the first steps and a busy machine are slower."""
        self.memory.stop()
        if not self.seconds or not trainer.is_global_zero:
            return
        batch = learner.probe_here()
        contents = {
            "parameters": parameters(learner.model),
            **learner.flops,
            "images_per_step": {"labelled": len(batch.x_l), "unlabelled": len(batch.x_u)},
            "seconds_per_step": statistics.median(self.seconds),
            # Of the whole run, though a resumed one has timed its last part alone.
            "seconds_of_training": statistics.mean(self.seconds) * learner.run.steps,
            "seconds_between_steps": statistics.median(self.waited) if self.waited else 0.0,
            "steps_timed": len(self.seconds),
            "peak_memory_bytes": self._peak_memory(),
            "processes": trainer.world_size,
            "device": device_name(),
            "threads": torch.get_num_threads(),
        }
        write_text(self.file, json.dumps(contents, indent=2) + "\n")

    def _peak_memory(self) -> int:
        """The most bytes that the process, or on a GPU its tensors, held in the training."""
        if has_gpu():
            return torch.cuda.max_memory_allocated()
        return self.memory.bytes


def parameters(model: torch.nn.Module) -> int:
    """How many numbers are trained."""
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


def flops(method: Method, model: torch.nn.Module, batch: Batch) -> dict[str, int]:
    """Operations for one patch: to learn from it (forward only), labelled or not, and to predict it.

    A product and a sum are two operations.
    """

    def learning(labelled: int, unlabelled: int) -> int:
        x_l = batch.x_l[:1].repeat_interleave(labelled, 0)
        y_l = batch.y_l[:1].repeat_interleave(labelled, 0)
        part = Batch(
            x_l=x_l,
            y_l=y_l,
            x_p=x_l,
            y_p=y_l,
            x_u=batch.x_l[:1].repeat_interleave(unlabelled, 0),
            seeds_l=batch.seeds_l[:1].repeat_interleave(labelled, 0),
            seeds_u=batch.seeds_l[:1].repeat_interleave(unlabelled, 0),
        )
        return counted(lambda: method.losses(model, part, progress=1.0).total)

    base = learning(1, 1)
    return {
        "flops_labelled": learning(2, 1) - base,
        "flops_unlabelled": learning(1, 2) - base,
        "flops_prediction": counted(lambda: method.predict(model, batch.x_l[:1])),
    }


def counted(compute: Callable[[], Tensor]) -> int:
    """The operations of one computation."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        compute()
    return counter.get_total_flops()
