"""The road from disk to batch: what a step waits for its images, and that more cases make it no longer."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from segpl.benchmark.machine import interleaved
from segpl.benchmark.steps import Configuration
from segpl.data.batches import Steps
from segpl.data.cache import open_volume, write_volume
from segpl.data.cases import Case
from segpl.data.preparation import Volume
from segpl.foundation.memory import held_without_files
from segpl.foundation.progress import track

SMALL = (48, 48, 8)
"""Of the many cases."""


def measure_waiting(
    configuration: Configuration, shape: tuple[int, int, int], repeats: int
) -> float:
    """Seconds to put one batch together from volumes of a realistic size."""
    with tempfile.TemporaryDirectory() as folder:
        made = _volumes(Path(folder), range(4), shape, configuration)
        road = _steps(made, configuration, configuration.patch)
        found = interleaved(
            {"batch": iter(map(road.__getitem__, range(repeats + 3))).__next__}, repeats + 3
        )
    return float(np.median(found["batch"].seconds[3:]))  # the first ones look for the foreground


def measure_road(
    counts: Sequence[int], configuration: Configuration, repeats: int
) -> list[dict[str, Any]]:
    """Seconds of a batch, and memory, with ever more cases."""
    rows: list[dict[str, Any]] = []
    made: list[Volume] = []
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            made += _volumes(Path(folder), range(len(made), count), SMALL, configuration)
            road = _steps(made, configuration, (*SMALL[:2], 8)[: len(configuration.patch)])
            steps = range(repeats)
            timing = interleaved({"batch": iter(map(road.__getitem__, steps)).__next__}, repeats)[
                "batch"
            ]
            rows.append(
                {"cases": count, "seconds": timing.median, "memory_bytes": held_without_files()}
            )
    return rows


def _steps(made: Sequence[Volume], configuration: Configuration, patch: tuple[int, ...]) -> Steps:
    """Every second case is labelled."""
    unlabelled = [Volume(volume.case, volume.x, None) for volume in made[1::2]]
    ratio = configuration.unlabelled // configuration.labelled
    return Steps(made[::2], unlabelled, 0, patch, configuration.labelled, ratio, foreground=0.5)


def _volumes(
    folder: Path, numbers: range, shape: tuple[int, int, int], configuration: Configuration
) -> list[Volume]:
    """Write them all, then open them all."""
    cases = [Case(str(number), str(number), (Path("image"),), Path("label")) for number in numbers]
    y = torch.zeros(configuration.regions, *shape, dtype=torch.bool)
    y[:, 10:30, 10:30, 2:6] = True
    for case in track(cases, f"Writing {len(cases)} cases"):
        draw = torch.Generator().manual_seed(int(case.name))
        (folder / case.name).mkdir()
        write_volume(
            folder / case.name,
            Volume(case, torch.randn(configuration.inputs, *shape, generator=draw), y),
        )
    return [open_volume(folder / case.name, case) for case in cases]
