"""How fast the machine is, and what a computation costs on it."""

import ctypes
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import torch

from segpl.foundation.device import has_gpu
from segpl.foundation.memory import PeakMemory

MATRIX_SIZE = 2048
"""Rows and columns of the matrices whose product is the mark for all other speeds."""
PRODUCT_OPERATIONS = 2.0 * MATRIX_SIZE**3
"""Floating-point operations of the product."""


class Timing(NamedTuple):
    """Repeated measurements of one task."""

    seconds: list[float]

    @property
    def median(self) -> float:
        """In seconds."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """The range of the measurements as a share of their median."""
        slowest = max(self.seconds)
        quickest = min(self.seconds)
        return (slowest - quickest) / self.median


def interleaved(tasks: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, Timing]:
    """Time every task once, then all again, and so on.

    A slow moment of the machine then affects all tasks alike.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            seconds[name].append(_seconds_of(task))
    return {name: Timing(measurements) for name, measurements in seconds.items()}


def _seconds_of(task: Callable[[], Any]) -> float:
    started = time.perf_counter()
    task()
    if has_gpu():
        torch.cuda.synchronize()
    return time.perf_counter() - started


def matrix_product(device: torch.device) -> Callable[[], torch.Tensor]:
    """A task that multiplies two square matrices in single precision."""
    a = torch.randn(MATRIX_SIZE, MATRIX_SIZE, device=device)
    b = torch.randn(MATRIX_SIZE, MATRIX_SIZE, device=device)
    return lambda: a @ b


def peak_memory(compute: Callable[[], Any]) -> int:
    """The most bytes that the process, or on a GPU its tensors, held during a computation."""
    if has_gpu():
        torch.cuda.reset_peak_memory_stats()
        compute()
        return torch.cuda.max_memory_allocated()
    _return_free_memory()
    with PeakMemory() as memory:
        compute()
    return memory.bytes


def _return_free_memory() -> None:
    """Return free memory to the system, or the next computation would be charged for it.

    Only glibc has a function for this; elsewhere nothing happens.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def time_help(repeats: int) -> Timing:
    """How long `segpl --help` takes."""
    command = [sys.executable, "-m", "segpl", "--help"]

    def call() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return interleaved({"help": call}, repeats)["help"]
