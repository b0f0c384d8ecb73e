"""How many processes train together and which one this is: alone, Lightning, torchrun or SLURM."""

import os
from enum import Enum
from typing import NamedTuple

from segpl.foundation.errors import UserError

TOGETHER = "SEGPL_PROCESSES"
"""Set in the environment while several processes train together. Those that Lightning starts
inherit it. Without it, a RANK or SLURM_PROCID belongs to something else, such as the shell of a
job, and means nothing here."""


class Processes(NamedTuple):
    """How many processes take part in a training."""

    devices: int
    """On each node."""
    nodes: int


ALONE = Processes(1, 1)


class Launcher(Enum):
    """What started this process together with others."""

    NONE = "none"
    TORCHRUN = "torchrun"
    SLURM = "SLURM"


def train_together(processes: Processes) -> None:
    """Note whether this process trains alone. Call it before `is_first`."""
    if processes == ALONE:
        os.environ.pop(TOGETHER, None)
    else:
        os.environ[TOGETHER] = str(processes.devices * processes.nodes)


def is_first() -> bool:
    """Whether this is the one process that writes files and prints."""
    match launcher():
        case Launcher.TORCHRUN:
            ranks = ["RANK"]
        case Launcher.SLURM:
            ranks = ["SLURM_PROCID"]
        case Launcher.NONE:
            ranks = ["NODE_RANK", "LOCAL_RANK"] if TOGETHER in os.environ else []
    return all(os.environ.get(rank, "0") == "0" for rank in ranks)


def requested_processes(devices: int | None, nodes: int | None) -> Processes:
    """The numbers given by the user or else by torchrun or SLURM; one process otherwise."""
    launched = _launched_processes()
    requested = Processes(devices or launched.devices, nodes or launched.nodes)
    if launched != ALONE and requested != launched:
        raise UserError(
            f"--devices {requested.devices} --nodes {requested.nodes} does not match what was "
            f"started, {launched.devices} processes on each of {launched.nodes} nodes: "
            "leave both out."
        )
    return requested


def launcher() -> Launcher:
    """What started this process.

    A SLURM job may have several tasks while this process runs alone in its batch script; only
    processes started by srun belong together.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return Launcher.TORCHRUN
    if int(os.environ.get("SLURM_STEP_NUM_TASKS", 1)) > 1:
        return Launcher.SLURM
    return Launcher.NONE


def _launched_processes() -> Processes:
    match launcher():
        case Launcher.TORCHRUN:
            on_this_node = int(os.environ["LOCAL_WORLD_SIZE"])
            total = int(os.environ["WORLD_SIZE"])
            return Processes(on_this_node, total // on_this_node)
        case Launcher.SLURM:
            return _slurm_processes()
        case Launcher.NONE:
            return ALONE


def _slurm_processes() -> Processes:
    if "SLURM_NTASKS_PER_NODE" not in os.environ:
        raise UserError("SLURM does not know the tasks per node: add --ntasks-per-node to srun.")
    tasks = int(os.environ.get("SLURM_STEP_NUM_TASKS", 1))
    nodes = int(os.environ.get("SLURM_STEP_NUM_NODES", 1))
    return Processes(tasks // nodes, nodes)
