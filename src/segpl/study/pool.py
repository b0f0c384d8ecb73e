"""Runs on this machine: each in a process of its own, so that a crash of one does not end the study."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NamedTuple

from segpl.study.work import OUTPUT, fail

COMMAND = [sys.executable, "-m", "segpl.study.worker"]
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Event(NamedTuple):
    """A run has begun, or it has ended."""

    directory: Path
    running: bool


def local(directories: Sequence[Path], workers: int | None = None) -> Generator[Event, None, None]:
    """Work through the directories, `workers` at a time (one by default), each with its share of the cores."""
    workers = workers or 1
    waiting, running = list(directories), dict[Path, subprocess.Popen[bytes]]()
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                directory = waiting.pop(0)
                running[directory] = start(directory, max(1, cores() // workers))
                yield Event(directory, running=True)
            time.sleep(0.05)
            for directory, process in list(running.items()):
                if process.poll() is not None:
                    del running[directory]
                    if process.returncode:
                        fail(directory, death(process.returncode))
                    yield Event(directory, running=False)
    finally:
        for process in running.values():
            process.kill()
            process.wait()


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start(directory: Path, threads: int) -> subprocess.Popen[bytes]:
    """Begin to work on a directory; all that is said goes to a file in it."""
    environment = os.environ | dict.fromkeys(THREADS, str(threads))
    with (directory / OUTPUT).open("ab") as output:
        return subprocess.Popen(
            [*COMMAND, str(directory)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
        )


def death(code: int) -> str:
    """How a process ended that could not say it itself."""
    how = f"ended with exit code {code}"
    if code < 0:  # not on Windows, which has no signals
        how = f"was ended by {signal.Signals(-code).name}"
        if code == -signal.SIGKILL:
            how += ", as the system does when memory runs out"
    return f"The process {how}: its last words are in {OUTPUT}."
