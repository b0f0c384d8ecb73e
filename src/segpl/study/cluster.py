"""Runs on a Ray cluster: tasks that need cores and perhaps a GPU, tried again when a machine dies.

The machines need the data under the same path as here; no other folder has to be shared. What a run leaves directly in
its directory comes back through Ray; checkpoints and masks stay on the machine that made them.
"""

import socket
from collections.abc import Generator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from segpl.foundation.errors import UserError
from segpl.foundation.files import write_bytes
from segpl.rundir import RUN_FILE, WEIGHTS_FILE
from segpl.study.pool import Event, death, start
from segpl.study.work import EVALUATION, FAILED, fail, failure

RETRIES = 5
"""How often a run is tried again whose machine or process died."""


class Share(NamedTuple):
    """What each run gets of the cluster."""

    cpus: int
    gpus: int


class LostError(Exception):
    """The process of a run died, and nobody knows why: try again."""


def on_cluster(
    directories: Sequence[Path], workers: int | None, address: str
) -> Generator[Event, None, None]:
    """Work through the directories on as many machines as there are, also on those that come later."""
    if not directories:
        return
    ray = _connect(address)
    try:
        share = _share(_machines(ray), workers)
        task = ray.remote(on_machine).options(
            num_cpus=share.cpus,
            num_gpus=share.gpus,
            max_retries=RETRIES,
            retry_exceptions=[LostError],
        )
        waiting, running = list(directories), dict[Any, Path]()
        while waiting or running:
            while waiting and len(running) < _places(_machines(ray), share):
                directory = waiting.pop(0)
                running[task.remote(str(directory.resolve()), _wanted(directory), share.cpus)] = (
                    directory
                )
                yield Event(directory, running=True)
            for ended in ray.wait(list(running), timeout=1.0)[0]:
                directory = running.pop(ended)
                _receive(ray, ended, directory)
                yield Event(directory, running=False)
    finally:
        ray.shutdown()


def on_machine(place: str, files: dict[str, bytes], threads: int) -> dict[str, bytes]:
    """What happens on a machine of the cluster: work in the same path there, and return the files that came of it."""
    directory = Path(place)
    (directory / FAILED).unlink(missing_ok=True)
    for name, content in files.items():
        if name in (RUN_FILE, EVALUATION) or not (directory / name).is_file():
            write_bytes(directory / name, content)
    process = start(directory, threads)
    if process.wait() < 0:
        raise LostError(death(process.returncode))
    if process.returncode:
        fail(directory, death(process.returncode))
    if reason := failure(directory):
        fail(directory, f"{reason} (on {socket.gethostname()})")
    return _files(directory)


def require_ray() -> ModuleType:
    """Ray, which those who have one machine need not install."""
    try:
        import ray
    except ImportError:
        raise UserError("--on ray needs Ray: pip install '.[cluster]' in segpl's folder.") from None
    return ray


def _connect(address: str) -> ModuleType:
    """Ray, connected: `ray` is the cluster of this machine, or a new one on it alone; `ray://...` one elsewhere."""
    ray = require_ray()
    try:
        ray.init(
            address=None if address == "ray" else address,
            log_to_driver=False,
            configure_logging=False,
        )
    except (ConnectionError, ValueError, TimeoutError) as error:
        said = str(error).strip().splitlines()[-1:]  # Ray may put a whole traceback before it
        raise UserError(
            f"--on {address}: no Ray cluster answers there ({''.join(said)}): start one."
        ) from None
    return ray


def _machines(ray: ModuleType) -> list[dict[str, float]]:
    return [
        node["Resources"]
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    ]


def _share(machines: list[dict[str, float]], workers: int | None) -> Share:
    """The cores divided among `workers`, or a whole machine for each run; a GPU each where there are any."""
    if not machines:
        raise UserError("--on ray: the cluster has no machine with a free core: add one.")
    smallest, total = min(each["CPU"] for each in machines), sum(each["CPU"] for each in machines)
    cpus = smallest if workers is None else min(smallest, total // workers)
    return Share(max(1, int(cpus)), int(any(each.get("GPU", 0) >= 1 for each in machines)))


def _places(machines: list[dict[str, float]], share: Share) -> int:
    """How many runs find room at once; one waits even when the last machine has just died."""
    room = [
        min(each["CPU"] // share.cpus, each.get("GPU", 0) if share.gpus else float("inf"))
        for each in machines
    ]
    return max(1, int(sum(room)))


def _wanted(directory: Path) -> dict[str, bytes]:
    """What a machine must know; of a run that is trained already, all there is."""
    if (directory / WEIGHTS_FILE).is_file():
        return _files(directory)
    return {name: (directory / name).read_bytes() for name in (RUN_FILE, EVALUATION)}


def _files(directory: Path) -> dict[str, bytes]:
    """The files directly in a directory, without hidden ones such as drafts and locks."""
    files = [
        file for file in directory.iterdir() if file.is_file() and not file.name.startswith(".")
    ]
    return {file.name: file.read_bytes() for file in files}


def _receive(ray: ModuleType, ended: Any, directory: Path) -> None:
    """Write what came back, or why nothing did."""
    try:
        for name, content in ray.get(ended).items():
            write_bytes(directory / name, content)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        fail(directory, f"Tried {RETRIES + 1} times on the cluster; the last time: {cause}")
