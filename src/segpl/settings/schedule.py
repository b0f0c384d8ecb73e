"""How long and in which batches to train, for the patch and for this machine."""

from collections.abc import Sequence
from math import ceil, prod

import torch

from segpl.data.cases import Case
from segpl.data.formats import Grid, read_grid
from segpl.foundation import memory
from segpl.foundation.device import has_gpu
from segpl.settings.patch import VOLUME
from segpl.settings.planned import Planned

BYTES_PER_ACTIVATION = 115
"""Memory of a training step per voxel of an image and first channel of the U-Net.

Measured: 83 to 113 bytes.
"""
CHECKPOINT_EVERY = 100
"""Steps between checkpoints, and the fewest between validations."""
STEPS = 2000
"""Optimiser steps on a CPU."""
STEPS_ON_GPU = 10_000
"""Optimiser steps on a GPU."""
TRAINING_PER_VALIDATION = 10
"""Training should take at least this many times as long as validation."""
NEW_PART_OF_WINDOW = 0.75
"""Each window overlaps the next one by the remaining quarter."""


def plan_channels(dimensions: int) -> Planned:
    """Channels of the U-Net's first level."""
    if dimensions == 2:
        return Planned(16, "the paper's for 2D")
    return Planned(8, "the paper's for 3D")


def plan_ratio() -> Planned:
    """Unlabelled images per labelled one in a step."""
    return Planned(1, "one unlabelled image per labelled one, which costs least")


def plan_learning_rate(dimensions: int) -> Planned:
    """The learning rate that validation subjects preferred (docs/understanding.md)."""
    if dimensions == 2:
        return Planned(0.003, "slices: 0.01 was 2 to 4 IoU points behind on brain tumours")
    return Planned(
        0.005,
        "volumes: with 0.003, one of two runs on the hippocampus learnt little; "
        "0.005 was not compared with others",
    )


def plan_steps() -> Planned:
    """Optimiser steps: as many as a user will wait for.

    At 1000 steps validation curves still rise (docs/training.md). Longer trainings were not
    compared, and none was run on a GPU.
    """
    if has_gpu():
        return Planned(STEPS_ON_GPU, "more than on a CPU, where a step takes longer")
    return Planned(
        STEPS, "validation curves still rise at 1000 steps, and 2000 take minutes on slices"
    )


def plan_batch(patch: Sequence[int], channels: int, ratio: int, batches: int = 1) -> Planned:
    """Labelled images per step: 4, or 2 large volumes; halved until half the memory suffices.

    A step has `batches` batches of that size.
    """
    voxels = prod(patch)
    activations = batches * voxels * channels * (1 + ratio)
    is_large = len(patch) == 3 and voxels > VOLUME / 2
    wanted = 2 if is_large else 4
    batch = wanted
    while batch > 1 and _gigabytes(batch, activations) > free_memory() / 2e9:
        batch //= 2

    memory_needed = f"a step takes about {_gigabytes(batch, activations):.2g} GB of memory"
    if batch < wanted:
        return Planned(batch, f"fewer than {wanted}, because memory is scarce; {memory_needed}")
    if is_large:
        return Planned(batch, f"2 patches of {voxels} voxels: they are large; {memory_needed}")
    unit = "pixels" if len(patch) == 2 else "voxels"
    return Planned(batch, f"4 patches of {voxels} {unit}; {memory_needed}")


def _gigabytes(batch: int, activations: int) -> float:
    return BYTES_PER_ACTIVATION * batch * activations / 1e9


def free_memory() -> int:
    """Bytes that are free now, on the GPU if there is one."""
    if has_gpu():
        free, _ = torch.cuda.mem_get_info()
        return int(free)
    return memory.available_bytes()


def plan_validate_every(
    validation: Sequence[Case],
    patch: Sequence[int],
    spacing: Sequence[float],
    images_per_step: int,
) -> Planned:
    """Steps between validations, chosen so that these take about a tenth of the time at most."""
    if not validation:
        return Planned(
            CHECKPOINT_EVERY, "a checkpoint is saved as often; there is no validation subject"
        )
    windows = 0
    for case in validation:
        windows += _count_windows(read_grid(case.images[0]), patch, spacing)
    # A window needs a forward pass. An image of a step also needs a backward pass, which costs
    # twice as much.
    passes_per_step = 3 * images_per_step
    validation_in_steps = windows / passes_per_step
    every = 50 * round(TRAINING_PER_VALIDATION * validation_in_steps / 50)
    every = max(CHECKPOINT_EVERY, every)
    percentage = 100 * validation_in_steps / every
    return Planned(every, f"validation then takes about {percentage:.2g} % of the training time")


def _count_windows(grid: Grid, patch: Sequence[int], spacing: Sequence[float]) -> int:
    """How many overlapping windows cover an image that is resampled to `spacing` (mm)."""
    count = grid.shape[2] if len(patch) == 2 else 1
    for size, own_step, step, side in zip(grid.shape, grid.spacing, spacing, patch, strict=False):
        resampled_size = size * own_step / step
        beyond_first = max(0.0, resampled_size - side)
        count *= 1 + ceil(beyond_first / (NEW_PART_OF_WINDOW * side))
    return count
