"""The only training: a run in, a run directory out."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import lightning

from segpl.data.batches import Steps, join_steps, keep_crops, keep_slices
from segpl.data.cache import Cache, default_folder
from segpl.data.cases import Dataset, Task
from segpl.data.layouts import read_dataset
from segpl.data.likeness import scan_statistics, summarise, write_statistics
from segpl.data.preparation import Volume
from segpl.data.splits import TrainingCases
from segpl.foundation.files import remove_drafts
from segpl.foundation.locks import exclusive_use
from segpl.foundation.processes import ALONE, Processes, is_first, train_together
from segpl.foundation.progress import console, format_duration
from segpl.foundation.provenance import write_provenance
from segpl.rundir import PROVENANCE_FILE, RUN_FILE, SPLIT_FILE, is_trained, write_json
from segpl.settings.run import Run, save_task
from segpl.settings.subjects import check_unlabelled, training_cases_of
from segpl.training.checkpoints import recover_last_checkpoint, save_final_weights
from segpl.training.checks import check_directory, check_processes, check_split, is_recorded
from segpl.training.facts import write_final_facts, write_initial_facts
from segpl.training.first_weights import check_earlier_run, initial_model, record_of_earlier_run
from segpl.training.learner import Learner
from segpl.training.pseudo_label_health import Reference, reference
from segpl.training.timing import seconds_of_training
from segpl.training.trainer import fit

MOST_SCANS = 200
"""Training scans whose statistics are recorded."""


class TrainingVolumes(NamedTuple):
    """The prepared cases of a training."""

    labelled: list[Volume]
    unlabelled: list[Volume]
    """Empty if the method does not use them."""
    validation: list[Volume]
    reference: Reference
    """What the labels hold that are learnt from."""


def train(
    run: Run,
    directory: Path,
    resume: bool = False,
    cache: Cache | None = None,
    processes: Processes = ALONE,
    watchers: Sequence[lightning.Callback] = (),
    dataset: Dataset | None = None,
) -> Path:
    """Train and leave everything in `directory`; with `resume`, continue from its last checkpoint.

    Several processes share the images of each step, so the gradient is that of one process.
    `watchers` are further Lightning callbacks. `dataset` is the content of the data folder, if it
    was read already.

    SIGINT, SIGTERM and SIGHUP save a checkpoint and raise `Stopped`, a `KeyboardInterrupt`. While
    another process trains in the directory, a `UserError` says so.
    """
    train_together(processes)
    if not is_first():
        return _train(run, directory, cache, processes, watchers, dataset)
    check_processes(run, processes)
    with exclusive_use(directory):
        remove_drafts(directory, depth=1)
        check_directory(run, directory, resume)
        recover_last_checkpoint(directory)
        return _train(run, directory, cache, processes, watchers, dataset)


def _train(
    run: Run,
    directory: Path,
    cache: Cache | None,
    processes: Processes,
    watchers: Sequence[lightning.Callback],
    dataset: Dataset | None,
) -> Path:
    """Train from the first step or from the last checkpoint, unless the training has ended."""
    if is_trained(directory):
        return directory
    dataset = dataset or read_dataset(run.data)
    cases = training_cases_of(run, dataset)
    check_unlabelled(run, cases)
    check_split(run, directory, cases)
    check_earlier_run(run, dataset.task, directory)
    console.print("Preparing the scans, or reading them from the cache")
    volumes = _load_volumes(run, cases, dataset.task, cache or Cache(default_folder()))
    if is_first():  # only now: a scan that cannot be read must not leave a run behind
        _write_records(run, cases, dataset.task, directory)
        _announce(run, cases, dataset.layout, directory)
    console.print("Building the network and timing a step")
    learner = _build_learner(run, volumes, dataset.task, directory)
    if is_first():
        _announce_duration(run, dataset.task, processes)
    fit(learner, directory, processes, watchers)
    if is_first():
        write_final_facts(run, directory, learner.guard_state.actions)
        _write_statistics(run, volumes, dataset.task, directory)
        save_final_weights(directory, validates=bool(volumes.validation))
    return directory


def _load_volumes(run: Run, cases: TrainingCases, task: Task, cache: Cache) -> TrainingVolumes:
    labelled = cache.volumes(cases.labelled, task, run.preparation)
    unlabelled_cases = cases.unlabelled if run.method.uses_unlabelled() else ()
    unlabelled = cache.volumes(unlabelled_cases, task, run.preparation)
    validation = cache.volumes(cases.validation, task, run.preparation)
    if run.slices:
        labelled = keep_slices(labelled, run.slices, run.seed)
    if run.crops:
        labelled = keep_crops(labelled, run.crops, run.patch, run.seed)
    labels = [volume.y for volume in labelled if volume.y is not None]
    return TrainingVolumes(labelled, unlabelled, validation, reference(labels, run.patch))


def _write_statistics(run: Run, volumes: TrainingVolumes, task: Task, directory: Path) -> None:
    """Record what the whole scans look like that training has seen, if there are any."""
    scans = [*volumes.unlabelled, *volumes.validation]
    if not run.slices and not run.crops:
        scans += volumes.labelled
    if not scans:
        return
    step = math.ceil(len(scans) / MOST_SCANS)
    of_scans = [scan_statistics(volume.x, task.channels) for volume in scans[::step]]
    write_statistics(directory, summarise(of_scans))


def _build_learner(run: Run, volumes: TrainingVolumes, task: Task, directory: Path) -> Learner:
    steps = Steps(
        volumes.labelled,
        volumes.unlabelled,
        run.seed,
        run.patch,
        run.batch,
        run.ratio,
        run.foreground,
    )
    return Learner(
        run=run,
        build=lambda: initial_model(run, task),
        steps=join_steps(steps, run.method.batches_per_step),
        validation=volumes.validation,
        reference=volumes.reference,
        directory=directory,
    )


def _write_records(run: Run, cases: TrainingCases, task: Task, directory: Path) -> None:
    """Write everything about the run that is known before the first step.

    `run.yaml` comes first: without it, a directory that holds anything else is not taken for a run.
    A resumed run keeps it, with the reasons behind its settings.
    """
    if not is_recorded(run, directory):
        run.save(directory)
    save_task(directory, task)
    settings = str(directory / RUN_FILE)
    equivalent = ["segpl", "train", str(run.data), "--config", settings, "--out", str(directory)]
    write_provenance(directory / PROVENANCE_FILE, run.data, equivalent, record_of_earlier_run(run))
    write_json(directory / SPLIT_FILE, cases.record())
    write_initial_facts(run, directory)


def _announce(run: Run, cases: TrainingCases, layout: str, directory: Path) -> None:
    """Tell the user which cases are used for what."""
    labelled = len(cases.labelled)
    unlabelled = len(cases.unlabelled)
    validation = len(cases.validation)
    console.print(
        f"{layout} data: {labelled} labelled, {unlabelled} unlabelled, {validation} validation "
        f"cases -> {directory}"
    )
    if run.start_from is not None:
        console.print(f"The first weights are those of {run.start_from}.")
    if not cases.validation:
        console.print("No validation subjects: the weights of the last step are kept.")


def _announce_duration(run: Run, task: Task, processes: Processes) -> None:
    count = processes.devices * processes.nodes
    seconds = seconds_of_training(run, task) / count
    console.print(
        f"{run.steps} steps: about {format_duration(seconds)} of training on this machine"
    )
