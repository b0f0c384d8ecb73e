"""The Lightning module that trains one method on one run's data."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.optim.lr_scheduler import PolynomialLR
from torch.utils.data import DataLoader

from segpl.data.batches import JoinedSteps
from segpl.data.preparation import Volume
from segpl.em.exchange import Sides, choose_images, draw_boxes, exchange
from segpl.em.tensors import Images, Probabilities
from segpl.em.types import Batch, Losses
from segpl.em.views import View, draw_view
from segpl.foundation.device import has_gpu
from segpl.foundation.draws import Stream, seeds
from segpl.foundation.errors import UserError
from segpl.inference.windows import predict_volume
from segpl.metrics.overlap import iou
from segpl.networks.compilation import Compiler, worth_compiling
from segpl.rundir import LAST_CHECKPOINT, RUN_FILE
from segpl.settings.run import Run
from segpl.training.checkpoints import end_epoch
from segpl.training.cost import flops
from segpl.training.guard import Guard, GuardState
from segpl.training.pseudo_label_health import Reference, health

NO_INFLUENCE = ("why", "data", "split", "start_from")
"""Reasons, and paths: the files may be moved, and what they hold is compared by itself."""


class Learner(lightning.LightningModule):
    """One method that learns from one sequence of steps."""

    def __init__(
        self,
        run: Run,
        build: Callable[[], nn.Module],
        steps: JoinedSteps,
        validation: list[Volume],
        reference: Reference,
        directory: Path,
    ):
        super().__init__()
        self.run = run
        self.build = build
        self.model = build()
        self.steps = steps
        self.validation = validation
        self.reference = reference
        self.directory = directory
        self.guard = Guard(directory / LAST_CHECKPOINT, steps=max(1, run.validate_every // 2))
        self.guard_state = GuardState()
        self.validation_is_current = True
        self.epoch_metrics: dict[str, float] = {}
        self.case_ious: list[Tensor] = []
        self.probe = steps[0]
        # Count before compiling: the compiler gives up on networks that were called in a count.
        self.flops = flops(run.method, self.model, self.probe)
        self.compiler = Compiler(self.model, self._should_compile())

    def _should_compile(self) -> bool:
        if self.run.compile is not None:
            return self.run.compile
        labelled = len(self.probe.x_l) * self.flops["flops_labelled"]
        unlabelled = len(self.probe.x_u) * self.flops["flops_unlabelled"]
        # The backward pass costs about twice the forward pass.
        operations = 3.0 * self.run.steps * (labelled + unlabelled)
        return worth_compiling(operations, len(self.run.patch))

    def probe_on_device(self) -> Batch:
        """The same few images at every validation, on the device of the model."""
        return self.probe.to(self.device)

    def initial_weights(self) -> dict[str, Tensor]:
        """The weights that the run began with."""
        return self.build().state_dict()

    def train_dataloader(self) -> DataLoader[Batch]:
        """The steps up to the next validation.

        Lightning asks again after each validation, so a resumed run begins where it stopped.
        """
        start = self.global_step
        next_validation = (start // self.run.validate_every + 1) * self.run.validate_every
        end = min(next_validation, self.run.steps)
        steps_of_process = self.steps.of_process(self.trainer.global_rank, self.trainer.world_size)
        # A step on a CPU takes seconds and its crops milliseconds. A GPU would wait for them.
        gpu = has_gpu()
        return DataLoader(
            steps_of_process,
            batch_size=None,
            sampler=range(start, end),
            num_workers=int(gpu),
            pin_memory=gpu,
        )

    def val_dataloader(self) -> DataLoader[Sequence[Any]]:
        """Image, truth and ignored voxels of the validation cases, one case after the other.

        Lightning skips an empty loader. With `limit_val_batches=0` instead, it would end the first
        epoch of a resumed run after one step.
        """
        cases = [(volume.x, volume.y, volume.ignored) for volume in self.validation]
        return DataLoader(cases, batch_size=None)  # type: ignore[arg-type]

    def training_step(self, batch: Batch, _: int) -> Tensor:
        """The training loss of one step.

        What a method draws from torch's own generator depends on the seed and the step alone.
        """
        step = self.global_step
        torch.manual_seed(int(seeds(self.run.seed, Stream.TORCH, step, count=1)))
        augmented = self._exchange_boxes(self._augment(batch, step))
        method = self.run.method.with_alpha_times(self.guard_state.alpha_factor)
        progress = step / self.run.steps
        losses = self.compiler(lambda: method.losses(self.model, augmented, progress))
        self.guard.watch(losses)
        self._log_step(losses, augmented)
        return losses.total

    def _log_step(self, losses: Losses, batch: Batch) -> None:
        values: dict[str, Any] = {
            "learning_rate": self.trainer.optimizers[0].param_groups[0]["lr"],
            "alpha_factor": self.guard_state.alpha_factor,
        }
        tensors = {"loss": losses.total, **losses.terms, **losses.logged, **health(losses, batch)}
        for name, tensor in tensors.items():
            values[name] = tensor.detach()
        self.log_dict(values, sync_dist=self.trainer.world_size > 1)

    def _augment(self, batch: Batch, step: int) -> Batch:
        """The batch in strong views.

        Unlabelled images stay as they are if the method draws their views itself.
        """
        view_l = self._draw_view(Stream.VIEW, step, self.run.labelled_per_step)
        view_p = self._draw_view(Stream.PARTNER_VIEW, step, self.run.labelled_per_step)
        x_u = batch.x_u
        if len(x_u) and not self.run.method.draws_views():
            view_u = self._draw_view(Stream.UNLABELLED_VIEW, step, self.run.unlabelled_per_step)
            x_u = view_u.image(x_u)
        return batch._replace(
            x_l=view_l.image(batch.x_l),
            y_l=view_l.label(batch.y_l),
            x_p=view_p.image(batch.x_p),
            y_p=view_p.label(batch.y_p),
            x_u=x_u,
            ignored_l=None if batch.ignored_l is None else view_l.label(batch.ignored_l),
            ignored_p=None if batch.ignored_p is None else view_p.label(batch.ignored_p),
        )

    def _draw_view(self, stream: Stream, step: int, count: int) -> View:
        """The views of this process's share of the step's `count` images."""
        seeds_of_step = seeds(self.run.seed, stream, step, count=count)
        seeds_of_process = seeds_of_step[self.trainer.global_rank :: self.trainer.world_size]
        on_device = seeds_of_process.to(self.device)
        return draw_view(on_device, self.run.augment, mirror=self.run.mirror)

    def _exchange_boxes(self, batch: Batch) -> Batch:
        """The batch in which some labelled images show a box of their partner."""
        boxes = draw_boxes(batch.seeds_l, batch.x_l.shape[2:], Sides(*self.run.box))
        boxes = boxes * choose_images(batch.seeds_l, self.run.exchange, like=boxes)
        exchanged = batch._replace(
            x_l=exchange(batch.x_p, batch.x_l, boxes),
            y_l=exchange(batch.y_p, batch.y_l, boxes),
        )
        if batch.ignored_l is None or batch.ignored_p is None:
            return exchanged
        return exchanged._replace(ignored_l=exchange(batch.ignored_p, batch.ignored_l, boxes))

    def on_train_batch_end(self, *_: object) -> None:
        """Let the method update its averages over time."""
        self.run.method.after_step(self.model)

    def is_at_validation(self) -> bool:
        """Whether no step was made since the last validation, or at all."""
        is_last = self.global_step == self.run.steps
        return is_last or self.global_step % self.run.validate_every == 0

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the state of the guard, and the settings to compare with on resume."""
        if not self.is_at_validation():
            end_epoch(checkpoint)
        checkpoint["guard"] = self.guard_state.to_checkpoint()
        checkpoint["settings"] = self._settings()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the state of the guard; refuse a run whose settings were changed since."""
        if "settings" in checkpoint and _given(checkpoint["settings"]) != _given(self._settings()):
            raise UserError(
                f"{self.directory / RUN_FILE} was changed after the run had begun: give the "
                "changed file to --config, with another --out."
            )
        self.guard_state = GuardState.from_checkpoint(checkpoint["guard"])

    def _settings(self) -> str:
        """All settings that influence the training, as JSON."""
        settings = self.run.mapping()
        for name in NO_INFLUENCE:
            del settings[name]
        return json.dumps(settings)

    def validation_step(self, case: Sequence[Any], _: int) -> None:
        """Foreground IoU of a whole case, averaged over the regions for which it is defined."""
        x, y, ignored = case
        p = predict_volume(self._predict_window, x, self.run.patch)
        mask = p > 0.5
        if ignored is not None:
            mask = mask & ~ignored.cpu()
        self.case_ious.append(iou(mask, y.cpu()).nanmean())

    def _predict_window(self, x: Images) -> Probabilities:
        """The map whose mask is scored: one sample."""
        return self.run.method.predict(self.model, x).samples[0]

    def on_validation_epoch_end(self) -> None:
        """Log the mean over the cases.

        Cases without a defined IoU (regions absent from truth and mask) are left out.
        """
        mean = torch.stack(self.case_ious).nanmean()
        self.log("validation_iou", mean.nan_to_num())
        self.case_ious.clear()

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """Adam; the learning rate decays as (1 - progress)^0.9."""
        optimiser = torch.optim.Adam(self.model.parameters(), lr=self.run.learning_rate, fused=True)
        decay = PolynomialLR(optimiser, total_iters=self.run.steps, power=0.9)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": decay, "interval": "step"}}


def _given(settings: str) -> dict[str, Any]:
    """The settings that have a value: those that later versions added are null in older runs."""
    return {name: value for name, value in json.loads(settings).items() if value is not None}
