"""Runs on a Ray cluster: tasks that need cores and perhaps a GPU, retried when a machine dies.

The machines need the data under the same path as here; no other folder has to be shared. The files
directly in a run directory come back through Ray; checkpoints and masks stay on the machine that
made them.
"""

import socket
from collections.abc import Generator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from segpl.foundation.errors import UserError
from segpl.foundation.files import write_bytes
from segpl.rundir import RUN_FILE, is_trained
from segpl.study.local import Event, describe_crash, is_ended_by_signal, start_worker
from segpl.study.single_run import (
    EVALUATION_FILE,
    FAILED_FILE,
    failure_reason,
    record_failure,
)

RETRIES = 5
"""How often a run is repeated after its machine or process died."""
INSTRUCTIONS = (RUN_FILE, EVALUATION_FILE)
"""The files that say what to train and score."""

Resources = dict[str, float]
"""What a machine of the cluster has: `CPU` and, if there are any, `GPU`."""


class Share(NamedTuple):
    """What each run gets of the cluster."""

    cpus: int
    gpus: int


class LostError(Exception):
    """The process of a run died for an unknown reason: Ray repeats the task."""


def run_on_cluster(
    directories: Sequence[Path], workers: int | None, address: str
) -> Generator[Event, None, None]:
    """Work on the run directories on all machines, including machines that join later."""
    if not directories:
        return
    ray = _connect(address)
    try:
        share = _share(_machines(ray), workers)
        task = _task(ray, share)
        waiting = list(directories)
        running: dict[Any, Path] = {}
        while waiting or running:
            while waiting and len(running) < _capacity(_machines(ray), share):
                directory = waiting.pop(0)
                files = _files_to_send(directory)
                reference = task.remote(str(directory.resolve()), files, share.cpus)
                running[reference] = directory
                yield Event(directory, running=True)
            ended, _ = ray.wait(list(running), timeout=1.0)
            for reference in ended:
                directory = running.pop(reference)
                _receive(ray, reference, directory)
                yield Event(directory, running=False)
    finally:
        ray.shutdown()


def _task(ray: ModuleType, share: Share) -> Any:
    return ray.remote(work_on_machine).options(
        num_cpus=share.cpus,
        num_gpus=share.gpus,
        max_retries=RETRIES,
        retry_exceptions=[LostError],
    )


def work_on_machine(path: str, files: dict[str, bytes], threads: int) -> dict[str, bytes]:
    """Train and score a run on a machine of the cluster, and return the files of its directory.

    `path` is the run directory, the same as on the machine of the study. It may still have the
    files of an earlier attempt, which then continues.
    """
    directory = Path(path)
    (directory / FAILED_FILE).unlink(missing_ok=True)
    for name, content in files.items():
        file = directory / name
        if name in INSTRUCTIONS or not file.is_file():
            write_bytes(file, content)
    process = start_worker(directory, threads)
    exit_code = process.wait()
    if is_ended_by_signal(exit_code):
        raise LostError(describe_crash(exit_code))
    if exit_code > 0:
        record_failure(directory, describe_crash(exit_code))
    reason = failure_reason(directory)
    if reason:
        record_failure(directory, f"{reason} (on {socket.gethostname()})")
    return _visible_files(directory)


def require_ray() -> ModuleType:
    """Ray, an optional dependency."""
    try:
        import ray
    except ImportError:
        raise UserError("--on ray needs Ray: pip install '.[cluster]' in segpl's folder.") from None
    return ray


def _connect(address: str) -> ModuleType:
    """Ray, connected to a cluster.

    `ray` is the cluster of this machine, started if there is none; `ray://...` is one elsewhere.
    """
    ray = require_ray()
    try:
        ray.init(
            address=None if address == "ray" else address,
            log_to_driver=False,
            configure_logging=False,
        )
    except (ConnectionError, ValueError, TimeoutError) as error:
        last_line = str(error).strip().splitlines()[-1:]  # a traceback may precede it
        reason = "".join(last_line)
        raise UserError(
            f"--on {address}: no Ray cluster answers there ({reason}): "
            "start one, or correct the address."
        ) from None
    return ray


def _machines(ray: ModuleType) -> list[Resources]:
    """The resources of all machines that are alive and have a core."""
    machines = []
    for node in ray.nodes():
        resources = node["Resources"]
        if node["Alive"] and resources.get("CPU", 0) >= 1:
            machines.append(resources)
    return machines


def _share(machines: list[Resources], workers: int | None) -> Share:
    """The cores divided among `workers`, or a whole machine for each run; a GPU if there is one."""
    if not machines:
        raise UserError("--on ray: the cluster has no machine with a free core: add one.")
    cores = [machine["CPU"] for machine in machines]
    cpus = min(cores)
    if workers is not None:
        cpus = min(cpus, sum(cores) // workers)
    has_gpu = any(machine.get("GPU", 0) >= 1 for machine in machines)
    return Share(cpus=max(1, int(cpus)), gpus=int(has_gpu))


def _capacity(machines: list[Resources], share: Share) -> int:
    """How many runs fit on the cluster at once; at least 1, even if the last machine just died."""
    total = 0.0
    for machine in machines:
        runs = machine["CPU"] // share.cpus
        if share.gpus:
            runs = min(runs, machine.get("GPU", 0))
        total += runs
    return max(1, int(total))


def _files_to_send(directory: Path) -> dict[str, bytes]:
    """What a machine needs to begin: the instructions or, for a trained run, all its files."""
    if is_trained(directory):
        return _visible_files(directory)
    return {name: (directory / name).read_bytes() for name in INSTRUCTIONS}


def _visible_files(directory: Path) -> dict[str, bytes]:
    """Contents of the files directly in a directory, without hidden ones (drafts and locks)."""
    contents = {}
    for file in directory.iterdir():
        if file.is_file() and not file.name.startswith("."):
            contents[file.name] = file.read_bytes()
    return contents


def _receive(ray: ModuleType, reference: Any, directory: Path) -> None:
    """Write the files that a task returned, or record why it failed."""
    try:
        files = ray.get(reference)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        reason = f"Tried {RETRIES + 1} times on the cluster; the last attempt ended with: {cause}"
        record_failure(directory, reason)
        return
    for name, content in files.items():
        write_bytes(directory / name, content)
