"""Lightning's trainer, set up for a run: devices, precision, callbacks."""

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path

import lightning
import torch
from lightning.fabric.plugins import ClusterEnvironment
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment

from segpl.foundation.device import has_gpu
from segpl.foundation.processes import ALONE, Launcher, Processes, launcher
from segpl.rundir import COST_FILE, LOG_FILE, STOPPED_CHECKPOINT
from segpl.training.checkpoints import DurableFiles, checkpoint_callbacks, newest_checkpoint
from segpl.training.cost import Cost
from segpl.training.guard import Monitor
from segpl.training.learner import Learner
from segpl.training.logbook import Logbook, ProgressBar, TensorBoard
from segpl.training.stopping import StopOnSignal


def fit(
    learner: Learner,
    directory: Path,
    processes: Processes,
    extra_callbacks: Sequence[lightning.Callback],
) -> None:
    """Train from the last checkpoint, if there is one, to the last step."""
    if has_gpu() and len(learner.run.patch) == 2:
        learner.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    stop = StopOnSignal(directory / STOPPED_CHECKPOINT)
    callbacks = [*_callbacks(learner, directory), *extra_callbacks, stop]
    checkpoint = newest_checkpoint(directory)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        # Lightning warns about workers and intervals that are chosen on purpose.
        warnings.simplefilter("ignore")
        trainer = _trainer(learner, directory, processes, callbacks)
        try:
            with torch.compiler.set_stance("force_eager"):
                trainer.fit(learner, ckpt_path=checkpoint, weights_only=True)
        except SystemExit as error:  # what Lightning makes of a KeyboardInterrupt
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise
    if stop.request.number is not None:  # it came during the last step
        raise stop.reason()


def _trainer(
    learner: Learner,
    directory: Path,
    processes: Processes,
    callbacks: list[lightning.Callback],
) -> lightning.Trainer:
    # A network that a step does not use (a teacher, or phi with a fixed prior) must not stall DDP.
    strategy = "auto" if processes == ALONE else "ddp_find_unused_parameters_true"
    return lightning.Trainer(
        default_root_dir=directory,
        plugins=[_environment(processes), DurableFiles()],
        max_steps=learner.run.steps,
        devices=processes.devices,
        num_nodes=processes.nodes,
        strategy=strategy,
        use_distributed_sampler=False,
        precision="bf16-mixed" if _has_bfloat16() else "32-true",
        callbacks=callbacks,
        logger=False,
        reload_dataloaders_every_n_epochs=1,
        num_sanity_val_steps=0,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def _callbacks(learner: Learner, directory: Path) -> list[lightning.Callback]:
    """The callbacks in the order in which they are called at the end of an epoch."""
    run = learner.run
    logbook = Logbook(directory / LOG_FILE)
    callbacks: list[lightning.Callback] = []
    if run.guard:
        callbacks.append(learner.guard)
    # After the guard: the monitor uses the weights that the run continues with.
    callbacks.append(Monitor())
    callbacks.append(logbook)
    callbacks.extend(TensorBoard.if_installed(logbook))
    callbacks.append(ProgressBar(run.method.name(), run.steps))
    callbacks.append(Cost(directory / COST_FILE))
    callbacks.extend(checkpoint_callbacks(directory, validates=bool(learner.validation)))
    return callbacks


def _has_bfloat16() -> bool:
    return has_gpu() and torch.cuda.is_bf16_supported(including_emulation=False)


def _environment(processes: Processes) -> ClusterEnvironment:
    """How the processes were started.

    Lightning must be told: it would take every command in a SLURM job for one of its tasks, and
    would requeue a run that is cut short with a checkpoint of its own, where --resume has ours.
    """
    if processes == ALONE or launcher() is Launcher.NONE:
        return LightningEnvironment()
    if launcher() is Launcher.TORCHRUN:
        return TorchElasticEnvironment()
    return SLURMEnvironment(auto_requeue=False)
