"""Channels and regions of a dataset without a description, read from its image files."""

from collections.abc import Iterable
from functools import lru_cache
from math import ceil, prod
from pathlib import Path

import numpy as np

from segpl.data.cases import USUAL_IGNORE_VALUE, Case, Cases, Region, Task
from segpl.data.formats import read_grid, read_image
from segpl.data.formats.image import split_array_name
from segpl.foundation.errors import UserError

MOST_VOXELS = 10**9
"""The number of label voxels to read, which takes some seconds.

A thousand CT labels would take half an hour.
"""
MOST_VALUES = 64
"""An image with more values than this is not a label map."""


def infer_task(
    folder: Path,
    training: Cases,
    test: Cases,
    channel_names: tuple[str, ...] = (),
    regions: tuple[Region, ...] = (),
    ignore: int | None = None,
) -> Task:
    """The task with the given regions; without any, with one region per label value.

    The value 255 beside others marks voxels to ignore, unless a given region has it.
    Without `channel_names`, the first image determines the number of channels.
    """
    cases = training + test
    if not cases:
        raise UserError(f"{folder} holds no image: add some.")
    first_image = cases[0].images[0]
    channels = channel_names or _numbered_channels(first_image)
    return Task(channels, regions or _regions(label_values(folder, cases), ignore), ignore)


def label_values(folder: Path, cases: Iterable[Case]) -> list[int]:
    """The values in the labels of these cases, other than 0, in ascending order.

    Of labels with more than `MOST_VOXELS` voxels altogether, only every Nth is read.
    """
    labels = [case.label for case in cases if case.label]
    if not labels:
        raise UserError(
            f"{folder} has no label, so its regions are unknown: label at least one case."
        )
    voxels_per_label = prod(read_grid(labels[0]).shape)
    step = ceil(len(labels) * voxels_per_label / MOST_VOXELS)
    values: set[int] = set()
    for label in labels[::step]:
        values |= _values(label, _time_of_change(label))
    values.discard(0)
    if not values:
        raise UserError(
            f"{labels[0]} and all other labels are empty: give at least one that is not."
        )
    return sorted(values)


def _numbered_channels(image: Path) -> tuple[str, ...]:
    count = read_grid(image).channels
    if count == 1:
        return ("image",)
    numbers = range(1, count + 1)
    return tuple(f"channel {number}" for number in numbers)


def _regions(values: list[int], ignore: int | None) -> tuple[Region, ...]:
    """One region per label value that counts. A mask may have 255 as its only value."""
    ignored_value = USUAL_IGNORE_VALUE if ignore is None else ignore
    if len(values) > 1:
        values = [value for value in values if value != ignored_value]
    if len(values) == 1:
        value = values[0]
        return (Region("foreground", (value,), value),)
    return tuple(Region(f"label {value}", (value,), value) for value in values)


def _time_of_change(label: Path) -> int:
    path, _ = split_array_name(label)
    return path.stat().st_mtime_ns


@lru_cache(maxsize=4096)
def _values(label: Path, time_of_change: int) -> frozenset[int]:
    """The values of a label, 0 included.

    `time_of_change` is part of the cache key, so a label is read again only if it has changed.
    """
    values = np.unique(read_image(label).values)
    if len(values) > MOST_VALUES:
        raise UserError(
            f"{label} has {len(values)} different values, so it is not a label map: "
            "export it again as one."
        )
    if not np.isfinite(values).all() or (values != values.round()).any():
        raise UserError(
            f"{label} has values that are not whole numbers, so it is not a label map: "
            "export it again as one."
        )
    return frozenset(int(value) for value in values)
