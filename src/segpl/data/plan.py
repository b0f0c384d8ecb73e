"""What the data say about how to train: each setting with the reason for it."""

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from segpl.data.cases import Dataset
from segpl.data.formats import Grid, read_grid
from segpl.data.loading import channels_of, is_ct, read
from segpl.errors import UserError
from segpl.networks import strides
from segpl.progress import track

LARGEST_PLANE = 176
"""The paper's crop: 176 x 176 in 2D."""
LARGEST_VOLUME = 176 * 176 * 3
"""The paper's crop in 3D, in voxels."""
SMALLEST = 16
"""Smaller images are filled up to this with background."""
BYTES = 115
"""What a training step holds for each voxel of an image and each of the U-Net's first channels (83 to 113 measured)."""
MEMORY = Path("/proc/meminfo")
"""Where Linux says how much memory can be had."""
LOOKED_AT = 5
"""How many images are opened to learn their grey values; the headers of all are read."""


class Planned(NamedTuple):
    """A setting and why it is so."""

    value: Any
    why: str


def plan(dataset: Dataset) -> dict[str, Planned]:
    """The settings of a run that depend on the data; a user's own settings go before them."""
    if not dataset.training:
        raise UserError(f"{dataset.folder} has no training image: add some.")
    cases = track(dataset.training, "Reading headers")
    grids = [read_grid(case.images[0]) for case in cases]
    flat, why = _flat(dataset, grids)
    spacing = _spacing(grids, flat)
    shape = _shape_after(grids, spacing.value)
    patch = _plane(shape, why) if flat else _volume(shape, why)
    channels, ratio = 16 if flat else 8, 1
    return {
        "patch": patch,
        "strides": Planned([list(step) for step in strides(patch.value)], "an axis is halved while even and 8 or more"),
        "channels": Planned(channels, f"the paper's for {'2D' if flat else '3D'}"),
        "batch": _batch(channels * int(np.prod(patch.value)) * (1 + ratio)),
        "ratio": Planned(ratio, "as many unlabelled as labelled ones: the cheapest"),
        "learning_rate": _learning_rate(flat),
        "spacing": spacing,
        "window": _window(dataset),
        "orientation": _orientation(grids),
    }


def _flat(dataset: Dataset, grids: list[Grid]) -> tuple[bool, str]:
    """Whether to go by 2D slices."""
    steps = np.median([grid.spacing for grid in grids], axis=0)
    if dataset.slices:
        return True, "2D: the task is one of slices"
    if all(grid.shape[2] == 1 for grid in grids):
        return True, "2D: the images are"
    if steps[2] >= 2.5 * steps[:2].max():
        return True, f"2D: slices are {steps[2]:g} mm apart, so the next one says little about this one"
    return False, "3D: slices lie close enough to help each other"


def _learning_rate(flat: bool) -> Planned:
    """What validation subjects preferred (docs/understanding.md)."""
    if flat:
        return Planned(0.003, "planes: 0.01 was 2 to 4 IoU points behind on brain tumours")
    return Planned(0.01, "volumes: 0.003 left one of two runs on the hippocampus with little learnt")


def _spacing(grids: list[Grid], flat: bool) -> Planned:
    steps = np.array([grid.spacing for grid in grids])[:, : 2 if flat else 3]
    if (steps.max(0) / steps.min(0)).max() <= 1.25:
        return Planned(None, "the images have one spacing, within a quarter")
    return Planned([round(float(step), 4) for step in np.median(steps, axis=0)], "the median: spacings differ")


def _orientation(grids: list[Grid]) -> Planned:
    """What new scans are turned to before the network sees them."""
    found = {grid.orientation for grid in grids}
    if found == {None}:
        return Planned(None, "the training images do not say how they lie")
    if len(found) == 1:
        return Planned(found.pop(), "the training images lie so, and new scans are turned to it")
    return Planned(None, "the training images lie in several ways, so new scans are left as they are")


def _shape_after(grids: list[Grid], spacing: list[float] | None) -> list[int]:
    """The median shape, once resampled."""
    shapes = np.array([grid.shape for grid in grids], dtype=float)
    if spacing:
        steps = np.array([grid.spacing for grid in grids])
        shapes[:, : len(spacing)] *= steps[:, : len(spacing)] / spacing
    return np.median(shapes, axis=0).round().astype(int).tolist()


def _plane(shape: list[int], why: str) -> Planned:
    patch = [min(max(_round_down(n, 16), SMALLEST), LARGEST_PLANE) for n in shape[:2]]
    return Planned(patch, f"{why}; the median slice in steps of 16, at most {LARGEST_PLANE} as in the paper")


def _volume(shape: list[int], why: str) -> Planned:
    patch = [max(_round_down(n, 8), least) for n, least in zip(shape, (SMALLEST, SMALLEST, 1), strict=True)]
    while np.prod(patch) > LARGEST_VOLUME:
        patch[int(np.argmax(patch))] -= 8
    return Planned(patch, f"{why}; the median volume in steps of 8, at most the paper's {LARGEST_VOLUME} voxels")


def _batch(numbers: int) -> Planned:
    """As many labelled images a step as the paper has, unless half of the free memory does not hold them."""
    gigabytes = {batch: BYTES * batch * numbers / 1e9 for batch in (2, 1)}
    if gigabytes[2] <= free_memory() / 2e9:
        return Planned(2, f"the paper's; a step takes about {gigabytes[2]:.2g} GB of memory")
    return Planned(1, f"less than the paper's 2: memory is scarce, and a step takes about {gigabytes[1]:.2g} GB")


def free_memory() -> int:
    """Bytes that are free now, on the GPU if there is one."""
    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    # What Linux calls free leaves out files that it keeps in memory and gives up at once; other systems do not say.
    found = re.search(r"MemAvailable: +(\d+)", MEMORY.read_text()) if MEMORY.is_file() else None
    return 1024 * int(found[1]) if found else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _window(dataset: Dataset) -> Planned:
    """The range of CT values worth telling apart, from the 0.5 % darkest to the 0.5 % brightest."""
    place = next((number for number, name in enumerate(dataset.task.channels) if is_ct(name)), None)
    if place is None:
        return Planned(None, "no channel is called CT: z-score of the body, nothing clipped")
    scans = [read(case.unlabelled()) for case in dataset.training[:LOOKED_AT]]
    values = [channels_of(scan)[place] for scan in scans if len(channels_of(scan)) > place]
    if not values:
        return Planned(None, "the CT channel is missing from the first images")
    low, high = (float(np.mean([np.percentile(each, share) for each in values])) for share in (0.5, 99.5))
    return Planned([round(low, 1), round(high, 1)], "CT: clipped to the middle 99 % of the values, then z-score")


def _round_down(size: int, step: int) -> int:
    return size if size < step else size // step * step
