"""The only training loop: a run in, a run directory out."""

import json
import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import lightning
import torch
from jaxtyping import Float
from lightning.fabric.plugins import ClusterEnvironment
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.optim.lr_scheduler import PolynomialLR
from torch.utils.data import DataLoader

from segpl.data.batches import Steps, keep_slices
from segpl.data.cache import Cache, default_folder
from segpl.data.cases import Dataset
from segpl.data.layouts import read_dataset
from segpl.data.preparation import Volume
from segpl.data.splits import TrainingCases, training_cases
from segpl.em.exchange import Sides, draw_boxes, exchange, some_images
from segpl.em.types import Batch
from segpl.em.views import View, draw_view
from segpl.foundation.device import has_gpu
from segpl.foundation.draws import Stream, seeds
from segpl.foundation.errors import UserError
from segpl.foundation.processes import ALONE, Launcher, Processes, is_first, launcher
from segpl.foundation.progress import console, in_words
from segpl.foundation.provenance import write_provenance
from segpl.inference.windows import predict_volume
from segpl.metrics.overlap import iou
from segpl.networks.arrangement import Compiler, repays
from segpl.rundir import (
    COST_FILE,
    LAST_CHECKPOINT,
    LOG_FILE,
    PROVENANCE_FILE,
    RUN_FILE,
    SPLIT_FILE,
    WEIGHTS_FILE,
    write_json,
)
from segpl.settings.run import Run, read_run, save_task
from segpl.training.checkpoints import begun, keep_weights, keepers
from segpl.training.cost import Cost, flops
from segpl.training.facts import write_final_facts, write_first_facts
from segpl.training.guard import Guard, Monitor, Reference, health, reference
from segpl.training.logbook import Logbook, ProgressBar, TensorBoard
from segpl.training.pace import seconds_of_training


class Learner(lightning.LightningModule):
    """One method learning on one set of steps, as Lightning wants to see it."""

    def __init__(
        self,
        run: Run,
        build: Callable[[], nn.Module],
        steps: Steps,
        validation: list[Volume],
        reference: Reference,
        directory: Path,
    ):
        super().__init__()
        self.build, self.directory, model = build, directory, build()
        self.run, self.model, self.steps, self.validation = run, model, steps, validation
        self.guard = Guard(directory / LAST_CHECKPOINT, steps=max(1, run.validate_every // 2))
        self.probe = steps[0]
        self.reference = reference
        self.caution, self.healthy = 1.0, False
        self.validation_counts = True
        self.guard_acts: list[dict[str, Any]] | None = []
        self.milestones: dict[str, float] = {}
        self.validated: list[Tensor] = []
        self.operations = (
            self._count()
        )  # first: the compiler gives up on a network that was called in a count
        self.compiler = Compiler(
            model, repays(self.operations, len(run.patch)) if run.compile is None else run.compile
        )

    def _count(self) -> float:
        """The operations of the whole run, roughly: each image goes forwards, and backwards at twice the cost."""
        self.flops = flops(self.run.method, self.model, self.probe)
        images = {"flops_labelled": len(self.probe.x_l), "flops_unlabelled": len(self.probe.x_u)}
        return (
            3.0 * self.run.steps * sum(count * self.flops[kind] for kind, count in images.items())
        )

    def probe_here(self) -> Batch:
        """The same few images at every validation, where the model is."""
        return Batch(*(part.to(self.device) for part in self.probe))

    def first_weights(self) -> dict[str, Tensor]:
        """The weights that the run began with."""
        return self.build().state_dict()

    def train_dataloader(self) -> DataLoader[Batch]:
        """The steps up to the next validation. Asked for anew each time, so a resumed run begins where it stopped."""
        start = self.global_step
        block = range(start, min(start + self.run.validate_every, self.run.steps))
        mine = replace(
            self.steps, process=self.trainer.global_rank, processes=self.trainer.world_size
        )
        # A step on a processor takes seconds and its crops milliseconds; a GPU would wait for them.
        gpu = has_gpu()
        return DataLoader(
            mine, batch_size=None, sampler=block, num_workers=int(gpu), pin_memory=gpu
        )

    def val_dataloader(self) -> DataLoader[Sequence[Tensor]]:
        """Image and truth of the validation cases, one whole case after the other.

        Lightning skips an empty loader. With `limit_val_batches=0` instead, it would end the first
        epoch of a resumed run after one step.
        """
        return DataLoader([(volume.x, volume.y) for volume in self.validation], batch_size=None)  # type: ignore[arg-type]

    def training_step(self, batch: Batch, _: int) -> Tensor:
        """The method's losses; whatever it draws from torch's own generator depends on seed and step alone."""
        step = self.global_step
        torch.manual_seed(int(seeds(self.run.seed, Stream.TORCH, step, count=1)))
        batch = self._exchanged(self._viewed(batch, step))
        method = self.run.method.cautious(self.caution)
        losses = self.compiler(
            lambda: method.losses(self.model, batch, progress=step / self.run.steps)
        )
        self.guard.watch(losses)
        rates = {
            "learning_rate": self.trainer.optimizers[0].param_groups[0]["lr"],
            "alpha_factor": self.caution,
        }
        seen = {"loss": losses.total, **losses.terms, **losses.watched, **health(losses, batch)}
        together = self.trainer.world_size > 1
        self.log_dict(
            {**rates, **{name: value.detach() for name, value in seen.items()}}, sync_dist=together
        )
        return losses.total

    def _viewed(self, batch: Batch, step: int) -> Batch:
        """Every image of the step in a strong view, but unlabelled ones plain if the method asks for that."""
        view_l = self._view(Stream.VIEW, step, self.run.batch)
        view_p = self._view(Stream.PARTNER_VIEW, step, self.run.batch)
        x_u = batch.x_u
        if len(x_u) and not self.run.method.draws_views():
            view_u = self._view(Stream.UNLABELLED_VIEW, step, self.run.batch * self.run.ratio)
            x_u = view_u.image(x_u)
        return batch._replace(
            x_l=view_l.image(batch.x_l),
            y_l=view_l.label(batch.y_l),
            x_p=view_p.image(batch.x_p),
            y_p=view_p.label(batch.y_p),
            x_u=x_u,
        )

    def _view(self, stream: Stream, step: int, count: int) -> View:
        """The views of this process's share of `count` images."""
        drawn = seeds(self.run.seed, stream, step, count=count)
        mine = drawn[self.trainer.global_rank :: self.trainer.world_size].to(self.device)
        return draw_view(mine, self.run.augment, mirror=self.run.mirror)

    def _exchanged(self, batch: Batch) -> Batch:
        """Some of the labelled images with a box of their partner."""
        boxes = draw_boxes(batch.seeds_l, batch.x_l.shape[2:], Sides(*self.run.box))
        boxes = boxes * some_images(batch.seeds_l, self.run.exchange, like=boxes)
        return batch._replace(
            x_l=exchange(batch.x_p, batch.x_l, boxes),
            y_l=exchange(batch.y_p, batch.y_l, boxes),
        )

    def on_train_batch_end(self, *_: object) -> None:
        """Averages over time follow."""
        self.run.method.after_step(self.model)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """What the guard did is part of the state, and the settings that it belongs to."""
        checkpoint["guard"] = {
            "caution": self.caution,
            "healthy": self.healthy,
            "acts": self.guard_acts,
        }
        checkpoint["settings"] = self._settings()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """And is taken up again, unless the run is another one by now."""
        if checkpoint.get("settings", self._settings()) != self._settings():
            raise UserError(
                f"{self.directory / RUN_FILE} was changed after the run had begun: give the changed file to --config, "
                "with another --out."
            )
        self.caution, self.healthy = checkpoint["guard"]["caution"], checkpoint["guard"]["healthy"]
        self.guard_acts = checkpoint["guard"].get("acts")  # earlier versions did not keep them

    def _settings(self) -> str:
        return json.dumps(
            {key: value for key, value in self.run.mapping().items() if key not in ("why", "data")}
        )

    def validation_step(self, case: Sequence[Tensor], _: int) -> None:
        """Foreground IoU of a whole validation case, averaged over the regions that are there."""
        x, y = case
        p = predict_volume(self._probabilities, x, self.run.patch)
        self.validated.append(iou(p > 0.5, y.cpu()).nanmean())

    def _probabilities(self, window: Float[Tensor, "B C *space"]) -> Float[Tensor, "B K *space"]:
        """What the method predicts by default: one sample."""
        return self.run.method.predict(self.model, window)[0]

    def on_validation_epoch_end(self) -> None:
        """The mean over the cases where it is defined: a region absent from truth and mask is no fault."""
        self.log("validation_iou", torch.stack(self.validated).nanmean().nan_to_num())
        self.validated.clear()

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """Adam with polynomial decay, step by step."""
        optimiser = torch.optim.Adam(self.model.parameters(), lr=self.run.learning_rate, fused=True)
        decay = PolynomialLR(optimiser, total_iters=self.run.steps, power=0.9)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": decay, "interval": "step"}}


def train(
    run: Run,
    directory: Path,
    resume: bool = False,
    cache: Cache | None = None,
    processes: Processes = ALONE,
    watchers: Sequence[lightning.Callback] = (),
    dataset: Dataset | None = None,
) -> Path:
    """Train and leave everything in `directory`; with `resume`, go on from its last checkpoint.

    Several processes share the images of each step: the gradient, and so the run, is that of one process.
    `dataset` is what the data folder holds, if that has been read already.
    """
    cache = cache or Cache(default_folder())
    if is_first():
        _check(run, directory, resume, processes)
    if (directory / WEIGHTS_FILE).is_file():
        return directory
    dataset = dataset or read_dataset(run.data)
    cases = training_cases(dataset, run.labelled, run.seed, run.validation, run.test)
    if run.method.uses_unlabelled() and not cases.unlabelled:
        raise UserError(
            f"{run.data} leaves no unlabelled scan for {run.method.name()}: add scans without a label, ask for fewer "
            "labelled ones with --labelled, or use --method supervised."
        )
    drawn = directory / SPLIT_FILE
    if (
        (directory / LAST_CHECKPOINT).is_file()
        and drawn.is_file()
        and json.loads(drawn.read_text()) != cases.record()
    ):
        problem = f"was started with another split, because {run.data} or segpl has changed since"
        raise UserError(f"{directory} {problem}: start a new run.")
    learnt = cases.unlabelled if run.method.uses_unlabelled() else ()
    labelled, unlabelled, validation = (
        cache.volumes(part, dataset.task, run.preparation)
        for part in (cases.labelled, learnt, cases.validation)
    )
    whole = reference([volume.y for volume in labelled if volume.y is not None], run.patch)
    if run.slices:
        labelled = keep_slices(labelled, run.slices, run.seed)
    if is_first():  # and only now: a scan that cannot be read leaves no run behind
        save_task(directory, dataset.task)
        _begin(run, cases, dataset.layout, directory)
    steps = Steps(labelled, unlabelled, run.seed, run.patch, run.batch, run.ratio, run.foreground)
    learner = Learner(run, lambda: run.build(dataset.task), steps, validation, whole, directory)
    if is_first():
        seconds = seconds_of_training(run, dataset.task)
        together = processes.devices * processes.nodes
        console.print(
            f"{run.steps} steps: about {in_words(seconds / together)} of training on this machine"
        )
    _fit(learner, directory, processes, watchers)
    if is_first():
        write_final_facts(run, directory, learner.guard_acts)
        keep_weights(directory, bool(validation))
    return directory


def _fit(
    learner: Learner, directory: Path, processes: Processes, watchers: Sequence[lightning.Callback]
) -> None:
    run, validates = learner.run, bool(learner.validation)
    logbook = Logbook(directory / LOG_FILE)
    gpu = has_gpu()
    half = gpu and torch.cuda.is_bf16_supported(including_emulation=False)
    if gpu and len(run.patch) == 2:
        learner.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # Lightning's advice on workers and intervals is settled here on purpose
        trainer = lightning.Trainer(
            default_root_dir=directory,
            plugins=[_environment(processes)],
            max_steps=run.steps,
            devices=processes.devices,
            num_nodes=processes.nodes,
            # A network that a step leaves out (a teacher, phi without a prior of numbers) must not stall the others.
            strategy="auto" if processes == ALONE else "ddp_find_unused_parameters_true",
            use_distributed_sampler=False,
            precision="bf16-mixed" if half else "32-true",
            callbacks=[
                *([learner.guard] if run.guard else []),
                Monitor(),  # after the guard: it labels with the weights that the run goes on with
                logbook,
                *TensorBoard.beside(logbook),
                ProgressBar(run.method.name(), run.steps),
                Cost(directory / COST_FILE),
                *keepers(directory, validates),
                *watchers,
            ],
            logger=False,
            reload_dataloaders_every_n_epochs=1,
            num_sanity_val_steps=0,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        last = directory / LAST_CHECKPOINT
        try:
            with torch.compiler.set_stance("force_eager"):
                trainer.fit(learner, ckpt_path=last if last.is_file() else None, weights_only=False)
        except SystemExit:  # what Lightning makes of Ctrl-C
            raise KeyboardInterrupt from None


def _environment(processes: Processes) -> ClusterEnvironment:
    """Who started the processes; Lightning takes every command in a SLURM job for one of its tasks.

    Nor does it put a run that is cut short back into SLURM's queue with a checkpoint of its own: --resume has ours.
    """
    if processes == ALONE or launcher() is Launcher.NONE:
        return LightningEnvironment()
    return (
        TorchElasticEnvironment()
        if launcher() is Launcher.TORCHRUN
        else SLURMEnvironment(auto_requeue=False)
    )


def _check(run: Run, directory: Path, resume: bool, processes: Processes) -> None:
    """Make sure that the run directory is free, or this run's own, and that the processes can share its batches."""
    together = processes.devices * processes.nodes
    if run.batch % together:
        raise UserError(
            f"batch is {run.batch}, which {together} processes cannot share: --set batch={together}."
        )
    if has_gpu() and processes.devices > torch.cuda.device_count():
        raise UserError(
            f"--devices {processes.devices}: this machine has {torch.cuda.device_count()}; ask for those."
        )
    file = directory / RUN_FILE
    has_begun = begun(directory)
    if has_begun and not resume:
        raise UserError(
            f"{directory} holds a run already: add --resume to go on with it, or choose another --out."
        )
    last = directory / LAST_CHECKPOINT
    if last.is_file() and not is_zipfile(last):  # torch saves a zip file; a cut one has no end
        raise UserError(f"{last} cannot be read: delete it, and --resume begins again.")
    kept = read_run(directory).mapping() if has_begun else {}
    changed = [
        f"{key}: {kept[key]}"
        for key, value in run.mapping().items()
        if has_begun and kept[key] != value
    ]
    if changed and changed[0].partition(":")[0] != "why":
        raise UserError(
            f"{file} was started with {'; '.join(changed)}: --resume goes on as it was; choose another --out."
        )
    if directory.exists() and not file.is_file() and any(directory.iterdir()):
        raise UserError(f"{directory} is not empty and holds no run: choose another --out.")


def _begin(run: Run, cases: TrainingCases, layout: str, directory: Path) -> None:
    """Write down what is about to happen, and say it."""
    directory.mkdir(parents=True, exist_ok=True)
    run.save(directory)
    settings = str(directory / RUN_FILE)
    again = ["segpl", "train", str(run.data), "--config", settings, "--out", str(directory)]
    write_provenance(directory / PROVENANCE_FILE, run.data, equivalent=again)
    write_json(directory / SPLIT_FILE, cases.record())
    write_first_facts(run, directory)
    counts = f"{len(cases.labelled)} labelled, {len(cases.unlabelled)} unlabelled, {len(cases.validation)} validation"
    console.print(f"{layout} data: {counts} cases -> {directory}")
    if not cases.validation:
        console.print("No validation subjects: the weights of the last step are kept.")
