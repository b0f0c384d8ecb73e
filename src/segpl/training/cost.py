"""The cost of a training: parameters, operations, seconds and memory, measured in the run."""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning import Callback, Trainer
from torch import Tensor, nn
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
        self.step_seconds: list[float] = []
        self.seconds_between_steps: list[float] = []
        self.step_ended: float | None = None
        self.memory = PeakMemory()

    def on_train_start(self, trainer: Trainer, learner: Any) -> None:
        """Start to watch the memory."""
        self.memory.start()

    def on_exception(self, trainer: Trainer, learner: Any, exception: BaseException) -> None:
        """Stop to watch the memory."""
        self.memory.stop()

    def on_train_batch_start(self, trainer: Trainer, learner: Any, batch: Batch, _: int) -> None:
        """Start to time a step."""
        self.step_started = time.perf_counter()
        if self.step_ended is not None:
            self.seconds_between_steps.append(self.step_started - self.step_ended)

    def on_train_batch_end(
        self,
        trainer: Trainer,
        learner: Any,
        outputs: Any,
        batch: Batch,
        _: int,
    ) -> None:
        """Stop to time the step."""
        self.step_ended = time.perf_counter()
        self.step_seconds.append(self.step_ended - self.step_started)

    def on_train_epoch_end(self, trainer: Trainer, learner: Any) -> None:
        """Do not count validation, which happens between epochs, as waiting for data."""
        self.step_ended = None

    def on_train_end(self, trainer: Trainer, learner: Any) -> None:
        """Write what was measured."""
        self.memory.stop()
        if self.step_seconds and trainer.is_global_zero:
            contents = self._contents(trainer, learner)
            write_text(self.file, json.dumps(contents, indent=2) + "\n")

    def _contents(self, trainer: Trainer, learner: Any) -> dict[str, Any]:
        """Medians, because the first steps and a busy machine are slower."""
        batch = learner.probe_on_device()
        seconds_between_steps = 0.0
        if self.seconds_between_steps:
            seconds_between_steps = statistics.median(self.seconds_between_steps)
        return {
            "parameters": count_parameters(learner.model),
            **learner.flops,
            "images_per_step": {"labelled": len(batch.x_l), "unlabelled": len(batch.x_u)},
            "seconds_per_step": statistics.median(self.step_seconds),
            # For the whole run, although a resumed run has timed its last part only.
            "seconds_of_training": statistics.mean(self.step_seconds) * learner.run.steps,
            "seconds_between_steps": seconds_between_steps,
            "steps_timed": len(self.step_seconds),
            "peak_memory_bytes": self._peak_memory(),
            "processes": trainer.world_size,
            "device": device_name(),
            "threads": torch.get_num_threads(),
        }

    def _peak_memory(self) -> int:
        """The peak in bytes: of the tensors on a GPU, otherwise of the process."""
        if has_gpu():
            return torch.cuda.max_memory_allocated()
        return self.memory.bytes


def count_parameters(model: nn.Module) -> int:
    """The number of trained parameters."""
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


def flops(method: Method, model: nn.Module, batch: Batch) -> dict[str, int]:
    """Floating-point operations per patch: to learn from it (forward pass only) and to predict it.

    A product and a sum are two operations.
    """

    def training_flops(labelled: int, unlabelled: int) -> int:
        """Of one of the method's batches with so many images."""
        batches = method.batches_per_step
        repeated = _repeat_first(batch, batches * labelled, batches * unlabelled)
        total = count_flops(lambda: method.losses(model, repeated, progress=1.0).total)
        return total // batches

    base = training_flops(labelled=1, unlabelled=1)
    return {
        "flops_labelled": training_flops(labelled=2, unlabelled=1) - base,
        "flops_unlabelled": training_flops(labelled=1, unlabelled=2) - base,
        "flops_prediction": count_flops(lambda: method.predict(model, batch.x_l[:1]).p),
    }


def _repeat_first(batch: Batch, labelled: int, unlabelled: int) -> Batch:
    """A batch of the given size in which every image is the first labelled image."""
    x_l = batch.x_l[:1].repeat_interleave(labelled, 0)
    y_l = batch.y_l[:1].repeat_interleave(labelled, 0)
    return Batch(
        x_l=x_l,
        y_l=y_l,
        x_p=x_l,
        y_p=y_l,
        x_u=batch.x_l[:1].repeat_interleave(unlabelled, 0),
        seeds_l=batch.seeds_l[:1].repeat_interleave(labelled, 0),
        seeds_u=batch.seeds_l[:1].repeat_interleave(unlabelled, 0),
    )


def count_flops(compute: Callable[[], Tensor]) -> int:
    """The floating-point operations of one computation."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        compute()
    return counter.get_total_flops()
