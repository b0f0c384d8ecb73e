"""Which of how many processes this one is: alone, started by Lightning, by torchrun or by SLURM."""

import os
from enum import Enum
from typing import NamedTuple

from segpl.foundation.errors import UserError


class Processes(NamedTuple):
    """How many take part in a training."""

    devices: int
    """On each node."""
    nodes: int


ALONE = Processes(1, 1)


def is_first() -> bool:
    """Whether this process is the one that writes files and speaks."""
    ranks = (os.environ.get(name) for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))
    return (
        next((rank for rank in ranks if rank is not None), "0") == "0"
        and os.environ.get("NODE_RANK", "0") == "0"
    )


def taking_part(devices: int | None, nodes: int | None) -> Processes:
    """What was asked for or, where nothing was, what torchrun or SLURM started; one process otherwise."""
    launched = _launched()
    wanted = Processes(devices or launched.devices, nodes or launched.nodes)
    if launched != ALONE and wanted != launched:
        raise UserError(
            f"--devices {wanted.devices} --nodes {wanted.nodes} does not fit what was started, {launched.devices} "
            f"processes on each of {launched.nodes} nodes: leave both out."
        )
    return wanted


class Launcher(Enum):
    """Who started this process together with others."""

    NONE = "none"
    TORCHRUN = "torchrun"
    SLURM = "SLURM"


def launcher() -> Launcher:
    """A job of SLURM may have many tasks: only what srun started is one of several."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return Launcher.TORCHRUN
    return Launcher.SLURM if int(os.environ.get("SLURM_STEP_NUM_TASKS", 1)) > 1 else Launcher.NONE


def _launched() -> Processes:
    match launcher():
        case Launcher.TORCHRUN:
            here, all_of_them = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
            return Processes(here, all_of_them // here)
        case Launcher.SLURM:
            if "SLURM_NTASKS_PER_NODE" not in os.environ:
                raise UserError(
                    "SLURM was asked for tasks, and not how many a node: give srun --ntasks-per-node."
                )
            tasks, nodes = (
                int(os.environ.get(f"SLURM_STEP_NUM_{what}", 1)) for what in ("TASKS", "NODES")
            )
            return Processes(tasks // nodes, nodes)
        case Launcher.NONE:
            return ALONE
