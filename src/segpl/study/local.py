"""Runs on this machine, each in its own process, so that a crash of one does not end the study."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Generator, Sequence
from pathlib import Path
from typing import NamedTuple

from segpl.study.single_run import OUTPUT_FILE, record_failure

COMMAND = [sys.executable, "-m", "segpl.study.worker"]
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
POLLING_INTERVAL = 0.05
"""Seconds."""
PATIENCE = 30.0
"""Seconds in which a run can end its step, or its validation, and save a checkpoint."""


class Event(NamedTuple):
    """A run has started (`running`) or ended."""

    directory: Path
    running: bool


def run_locally(
    directories: Sequence[Path], workers: int | None = None
) -> Generator[Event, None, None]:
    """Work on the run directories, `workers` at a time (1 by default), which share the cores.

    Closing the generator stops the processes that are still running; they save a checkpoint.
    """
    workers = workers or 1
    threads = max(1, available_cores() // workers)
    waiting = list(directories)
    running: dict[Path, subprocess.Popen[bytes]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                directory = waiting.pop(0)
                running[directory] = start_worker(directory, threads)
                yield Event(directory, running=True)
            time.sleep(POLLING_INTERVAL)
            for directory, process in list(running.items()):
                if process.poll() is not None:
                    del running[directory]
                    _record_crash(directory, process.returncode)
                    yield Event(directory, running=False)
    finally:
        _stop(running.values())


def _stop(processes: Collection[subprocess.Popen[bytes]]) -> None:
    """Ask the processes to save their state and end; those that do not are killed."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + PATIENCE
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _record_crash(directory: Path, exit_code: int) -> None:
    if exit_code != 0:
        record_failure(directory, describe_crash(exit_code))


def available_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start_worker(directory: Path, threads: int) -> subprocess.Popen[bytes]:
    """Start a worker process for a run directory; its output is appended to a file there."""
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads))
    with (directory / OUTPUT_FILE).open("ab") as output:
        return subprocess.Popen(
            [*COMMAND, str(directory)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
        )


def describe_crash(exit_code: int) -> str:
    """How a process ended that could not record its failure itself."""
    return f"The process {_cause_of_crash(exit_code)}: see the end of {OUTPUT_FILE}."


def is_ended_by_signal(exit_code: int) -> bool:
    """Whether a signal ended a process, or told it to stop: shells report that as 128 and more."""
    return exit_code < 0 or exit_code > 128


def _cause_of_crash(exit_code: int) -> str:
    if not is_ended_by_signal(exit_code):
        return f"ended with exit code {exit_code}"
    number = -exit_code if exit_code < 0 else exit_code - 128
    cause = f"was ended by {signal.Signals(number).name}"
    if exit_code == -signal.SIGKILL:
        cause += ", as the system does when memory runs out"
    return cause
