"""What only the files themselves can tell where a layout has no description: channels and label values."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import ceil, prod
from pathlib import Path

import numpy as np

from segpl.data.cases import Case, Region, Task
from segpl.data.formats import read_grid, read_image
from segpl.data.formats.image import split
from segpl.foundation.errors import UserError

MOST_VOXELS = 10**9
"""How many voxels of labels are looked at, which takes some seconds: a thousand CT labels would take half an hour."""
MOST_VALUES = 64
"""A label with more values than this is a picture."""


def task_of(
    folder: Path, training: Sequence[Case], test: Sequence[Case], channels: tuple[str, ...] = ()
) -> Task:
    """A region per label value; the channels as the first image has them, unless they have names."""
    cases = (*training, *test)
    if not cases:
        raise UserError(f"{folder} holds no image: add some.")
    return Task(channels or _channels(cases[0].images[0]), _regions(label_values(folder, cases)))


def label_values(folder: Path, cases: Iterable[Case]) -> list[int]:
    """The values in the labels of these cases, other than 0; of an even sample where there are many."""
    labels = [case.label for case in cases if case.label]
    if not labels:
        raise UserError(
            f"{folder} has no label, so its regions are unknown: label at least one case."
        )
    step = ceil(len(labels) * prod(read_grid(labels[0]).shape) / MOST_VOXELS)
    values = sorted(
        set().union(*(_values(label, _changed(label)) for label in labels[::step])) - {0}
    )
    if not values:
        raise UserError(
            f"{labels[0]} and all other labels are empty: give at least one that is not."
        )
    return values


def _channels(image: Path) -> tuple[str, ...]:
    count = read_grid(image).channels
    return ("image",) if count == 1 else tuple(f"channel {i + 1}" for i in range(count))


def _regions(values: list[int]) -> tuple[Region, ...]:
    if len(values) == 1:
        return (Region("foreground", tuple(values), values[0]),)
    return tuple(Region(f"label {value}", (value,), value) for value in values)


def _changed(label: Path) -> int:
    return split(label)[0].stat().st_mtime_ns


@lru_cache(maxsize=4096)
def _values(label: Path, changed: int) -> frozenset[int]:
    """The values of a label; read once as long as its time of change stays the same."""
    values = np.unique(read_image(label).values)
    if len(values) > MOST_VALUES:
        raise UserError(
            f"{label} has {len(values)} different values, so it is no label map: export it again as one."
        )
    if not (np.isfinite(values).all() and (values == values.round()).all()):
        raise UserError(
            f"{label} has values that are no whole numbers, so it is no label map: export it again as one."
        )
    return frozenset(int(value) for value in values)
