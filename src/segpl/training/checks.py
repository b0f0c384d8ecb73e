"""Checks before a training starts: can the processes share a batch, is the run directory free."""

from pathlib import Path

import torch

from segpl.data.splits import TrainingCases
from segpl.foundation.device import has_gpu
from segpl.foundation.errors import UserError
from segpl.foundation.processes import Processes
from segpl.rundir import RUN_FILE, SPLIT_FILE, read_plain
from segpl.settings.run import Run, read_run
from segpl.training.checkpoints import has_begun, has_checkpoint


def check_processes(run: Run, processes: Processes) -> None:
    """Refuse processes that cannot share a batch, and more devices than there are."""
    count = processes.devices * processes.nodes
    if run.batch % count:
        raise UserError(
            f"batch is {run.batch}, which {count} processes cannot share: --set batch={count}."
        )
    if has_gpu() and processes.devices > torch.cuda.device_count():
        available = torch.cuda.device_count()
        raise UserError(
            f"--devices {processes.devices} is more than this machine has: use --devices "
            f"{available}."
        )


def check_directory(run: Run, directory: Path, resume: bool) -> None:
    """Refuse a directory that holds something other than this run, or this run without --resume."""
    if has_begun(directory):
        if not resume:
            raise UserError(
                f"{directory} holds a run already: add --resume to continue it, "
                "or choose another --out."
            )
        _check_same_settings(run, directory)
    is_run_directory = (directory / RUN_FILE).is_file()
    if not is_run_directory and _has_visible_files(directory):
        raise UserError(f"{directory} is not empty and holds no run: choose another --out.")


def _has_visible_files(directory: Path) -> bool:
    """Whether there is anything but hidden files, such as the lock."""
    return any(not path.name.startswith(".") for path in directory.iterdir())


def _check_same_settings(run: Run, directory: Path) -> None:
    """Refuse to resume with other settings."""
    changed = _changed_settings(run, directory)
    if changed:
        raise UserError(
            f"{directory / RUN_FILE} was started with {'; '.join(changed)}: leave these settings "
            "out to resume the run as it was, or choose another --out."
        )


def is_recorded(run: Run, directory: Path) -> bool:
    """Whether `run.yaml` has these settings already; a file that cannot be read has not."""
    try:
        return not _changed_settings(run, directory)
    except UserError:
        return False


def _changed_settings(run: Run, directory: Path) -> list[str]:
    """The settings of `run.yaml` that differ. The reasons behind the settings may differ."""
    settings_before = read_run(directory).mapping()
    changed = []
    for name, value in run.mapping().items():
        if name != "why" and settings_before[name] != value:
            changed.append(f"{name}: {settings_before[name]}")
    return changed


def check_split(run: Run, directory: Path, cases: TrainingCases) -> None:
    """Refuse to resume on another split than the run was started with."""
    file = directory / SPLIT_FILE
    is_resumed = has_checkpoint(directory) and file.is_file()
    if is_resumed and read_plain(file) != cases.record():
        raise UserError(
            f"{directory} was started with another split, because {run.data} or segpl has changed "
            "since: start a new run."
        )
