"""Which of how many processes this one is: alone, started by Lightning, by torchrun or by SLURM."""

import os
from typing import NamedTuple

from segpl.errors import UserError


class Processes(NamedTuple):
    """How many take part in a training."""

    devices: int
    """On each node."""
    nodes: int


ALONE = Processes(1, 1)


def is_first() -> bool:
    """Whether this process is the one that writes files and speaks."""
    ranks = (os.environ.get(name) for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK"))
    return next((rank for rank in ranks if rank is not None), "0") == "0" and os.environ.get("NODE_RANK", "0") == "0"


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


def _launched() -> Processes:
    if "TORCHELASTIC_RUN_ID" in os.environ:
        here, all_of_them = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
        return Processes(here, all_of_them // here)
    tasks, nodes = (int(os.environ.get(name, 1)) for name in ("SLURM_NTASKS", "SLURM_NNODES"))
    # Lightning takes a job of such a name for a shell, whose commands start alone.
    started = os.environ.get("SLURM_JOB_NAME") not in ("bash", "interactive")
    return Processes(tasks // nodes, nodes) if started and tasks > 1 else ALONE
