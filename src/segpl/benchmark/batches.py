"""From disk to batch: the time a step waits for its images, with few and with many cases."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from segpl.benchmark.machine import Timing, interleaved
from segpl.benchmark.steps import Configuration
from segpl.data.batches import Steps
from segpl.data.cache import open_volume, write_volume
from segpl.data.cases import Case
from segpl.data.preparation import Volume
from segpl.em.types import Batch
from segpl.foundation.memory import resident_bytes_without_files
from segpl.foundation.progress import track

Shape = tuple[int, int, int]

SMALL_SHAPE: Shape = (48, 48, 8)
"""The shape of each case where there are many."""
FIRST_BATCHES = 3
"""Not counted, because they search their volumes for foreground."""


def measure_batch_seconds(
    configuration: Configuration,
    shape: Shape,
    repeats: int,
) -> float:
    """Median seconds to make a batch from volumes of a realistic size."""
    with tempfile.TemporaryDirectory() as folder:
        volumes = _write_volumes(Path(folder), range(4), shape, configuration)
        steps = _steps(volumes, configuration, configuration.patch)
        timing = _time_batches(steps, repeats + FIRST_BATCHES)
    return float(np.median(timing.seconds[FIRST_BATCHES:]))


def measure_growing_data(
    case_counts: Sequence[int],
    configuration: Configuration,
    repeats: int,
) -> list[dict[str, Any]]:
    """Seconds of a batch, and memory of the process, with more and more cases."""
    axes = len(configuration.patch)
    rows: list[dict[str, Any]] = []
    volumes: list[Volume] = []
    with tempfile.TemporaryDirectory() as folder:
        for count in case_counts:
            new = range(len(volumes), count)
            volumes += _write_volumes(Path(folder), new, SMALL_SHAPE, configuration)
            steps = _steps(volumes, configuration, SMALL_SHAPE[:axes])
            timing = _time_batches(steps, repeats)
            row = {
                "cases": count,
                "seconds": timing.median,
                "memory_bytes": resident_bytes_without_files(),
            }
            rows.append(row)
    return rows


def _time_batches(steps: Steps, count: int) -> Timing:
    """Time the first `count` batches, one after the other."""
    numbers = iter(range(count))

    def next_batch() -> Batch:
        return steps[next(numbers)]

    return interleaved({"batch": next_batch}, count)["batch"]


def _steps(
    volumes: Sequence[Volume],
    configuration: Configuration,
    patch: tuple[int, ...],
) -> Steps:
    """Steps in which every second case is labelled."""
    return Steps(
        labelled=volumes[::2],
        unlabelled=[Volume(volume.case, volume.x, None) for volume in volumes[1::2]],
        seed=0,
        patch=patch,
        batch=configuration.labelled,
        ratio=configuration.unlabelled // configuration.labelled,
        foreground=0.5,
    )


def _write_volumes(
    folder: Path,
    numbers: range,
    shape: Shape,
    configuration: Configuration,
) -> list[Volume]:
    """Volumes of noise with a box as label, written to disk and opened again."""
    y = torch.zeros(configuration.regions, *shape, dtype=torch.bool)
    y[:, 10:30, 10:30, 2:6] = True
    cases = [_case(str(number)) for number in numbers]
    for case in track(cases, f"Writing {len(cases)} cases"):
        generator = torch.Generator().manual_seed(int(case.name))
        x = torch.randn(configuration.inputs, *shape, generator=generator)
        (folder / case.name).mkdir()
        write_volume(folder / case.name, Volume(case, x, y))
    return [open_volume(folder / case.name, case) for case in cases]


def _case(name: str) -> Case:
    """A labelled case whose files do not exist, because its prepared volume is all that is read."""
    return Case(name, subject=name, images=(Path("image"),), label=Path("label"))
