"""How many processes train together and which one this is: alone, Lightning, torchrun or SLURM."""

import os
from enum import Enum
from typing import NamedTuple

from segpl.foundation.errors import UserError

RANK_VARIABLES = ("RANK", "LOCAL_RANK", "SLURM_PROCID")
"""Environment variables with the number of this process, the most general first."""


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


def is_first() -> bool:
    """Whether this is the one process that writes files and prints."""
    node_rank = os.environ.get("NODE_RANK", "0")
    return _rank() == "0" and node_rank == "0"


def _rank() -> str:
    for name in RANK_VARIABLES:
        if name in os.environ:
            return os.environ[name]
    return "0"


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
