"""What the machine can do and what a computation takes of it."""

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

SIZE = 2048
"""Rows and columns of the matrices whose product sets the mark."""
PRODUCT = 2.0 * SIZE**3
"""Its floating-point operations."""


class Timing(NamedTuple):
    """Repeated measurements of one thing."""

    seconds: list[float]

    @property
    def median(self) -> float:
        """Half of them were quicker."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """From the quickest to the slowest, as a share of the median."""
        return (max(self.seconds) - min(self.seconds)) / self.median


def interleaved(tasks: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, Timing]:
    """Time each task once, then each again, and so on: a slow moment of the machine meets all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            started = time.perf_counter()
            task()
            if has_gpu():
                torch.cuda.synchronize()
            seconds[name].append(time.perf_counter() - started)
    return {name: Timing(found) for name, found in seconds.items()}


def product(device: torch.device) -> Callable[[], torch.Tensor]:
    """The product of two square matrices in single precision, whose rate is the mark for everything else."""
    a, b = (torch.randn(SIZE, SIZE, device=device) for _ in range(2))
    return lambda: a @ b


def peak_memory(compute: Callable[[], Any]) -> int:
    """The most bytes that the process, or on a GPU its tensors, held during a computation."""
    if has_gpu():
        torch.cuda.reset_peak_memory_stats()
        compute()
        return torch.cuda.max_memory_allocated()
    _give_back()
    with PeakMemory() as memory:
        compute()
    return memory.bytes


def _give_back() -> None:
    """Let the system have what is free: it would be counted as the next computation's. Only glibc knows how."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def start_up(repeats: int) -> Timing:
    """How long `segpl --help` takes."""

    def call() -> None:
        subprocess.run(
            [sys.executable, "-m", "segpl", "--help"], check=True, stdout=subprocess.DEVNULL
        )

    return interleaved({"help": call}, repeats)["help"]
