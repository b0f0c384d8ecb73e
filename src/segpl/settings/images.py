"""What the images themselves show: dimensions, orientation, mirror symmetry and grey values."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from segpl.data.cases import Case, Dataset, Region
from segpl.data.formats import Grid
from segpl.data.formats.image import split_array_name
from segpl.data.preparation import is_ct
from segpl.data.scans import channels_of, read_scan
from segpl.settings.objects import nested_pairs
from segpl.settings.planned import Planned

THICK_SLICES = 2.5
"""Slices this many times further apart than the pixels in them are learnt one by one."""
IMAGES_READ = 5
"""How many images are read to learn their grey values; of all others, only the header is read."""
CLIPPED_PERCENT = 0.5
"""Percentage of the darkest and of the brightest voxels outside the window of CT."""


def plan_dimensions(dataset: Dataset, grids: Sequence[Grid]) -> Planned:
    """2 to learn from slices, 3 to learn from volumes."""
    spacing = np.median([grid.spacing for grid in grids], axis=0)
    in_plane = spacing[:2].max()
    between_slices = spacing[2]
    if dataset.use_slices:
        return Planned(2, "2D: the task is defined on slices")
    if all(grid.shape[2] == 1 for grid in grids):
        return Planned(2, "2D: the images are")
    if between_slices >= THICK_SLICES * in_plane:
        return Planned(2, f"2D: slices are {between_slices:g} mm apart, too far to help each other")
    return Planned(3, "3D: slices are close enough to help each other")


def plan_orientation(grids: Sequence[Grid]) -> Planned:
    """The orientation that new scans are brought to before the network sees them, such as RAS."""
    orientations = {grid.orientation for grid in grids}
    if orientations == {None}:
        return Planned(None, "the training images do not state their orientation")
    if len(orientations) == 1:
        return Planned(
            orientations.pop(),
            "the orientation of all training images; new scans are reoriented to it",
        )
    return Planned(
        None, "the training images have several orientations, so new scans are not reoriented"
    )


def plan_mirror(grids: Sequence[Grid], regions: Sequence[Region]) -> Planned:
    """Axes along which views may be mirrored: none for bodies, two for photographs, say."""
    if any(grid.orientation for grid in grids):
        return Planned(
            [], "the images state their orientation, and a mirrored body is a different one"
        )
    for region in regions:
        if _has_side(region):
            return Planned([], f"a mirrored {region.name} would be the other one")
    if len(regions) > 1 and not _share_one_parent(regions):
        return Planned([], f"position may distinguish the {len(regions)} regions from one another")
    return Planned(
        [0, 1], "the images have no orientation, and no region has a mirrored counterpart"
    )


def _has_side(region: Region) -> bool:
    name = region.name.lower()
    return "left" in name or "right" in name


def _share_one_parent(regions: Sequence[Region]) -> bool:
    """Whether one region contains all others."""
    children = Counter(parent for _, parent in nested_pairs(regions))
    most_children = max(children.values(), default=0)
    return most_children >= len(regions) - 1


def plan_window(dataset: Dataset) -> Planned:
    """The range of CT values that is kept, from the 0.5 % darkest to the 0.5 % brightest."""
    channel = _ct_channel(dataset.task.channels)
    if channel is None:
        return Planned(None, "no channel is called CT: z-score of the body, nothing clipped")
    cases = tuple(case.unlabelled() for case in dataset.training[:IMAGES_READ])
    window = _mean_grey_range(cases, channel, _modification_times(cases))
    if window is None:
        return Planned(None, "the CT channel is missing from the first images")
    return Planned(list(window), "CT: clipped to the middle 99 % of the values, then z-score")


def _ct_channel(names: Sequence[str]) -> int | None:
    """The index of the first CT channel; None without one."""
    for index, name in enumerate(names):
        if is_ct(name):
            return index
    return None


@lru_cache(maxsize=8)
def _mean_grey_range(
    cases: tuple[Case, ...],
    channel: int,
    modification_times: tuple[int, ...],
) -> tuple[float, float] | None:
    """The mean range of a channel over the cases that have it; None if none has.

    A study plans the same images for each seed, so results are kept. `modification_times` is part
    of the key: a file that has changed is read again.
    """
    lows = []
    highs = []
    for case in cases:
        channels = channels_of(read_scan(case).images)
        if channel < len(channels):
            lows.append(np.percentile(channels[channel], CLIPPED_PERCENT))
            highs.append(np.percentile(channels[channel], 100 - CLIPPED_PERCENT))
    if not lows:
        return None
    low = round(float(np.mean(lows)), 1)
    high = round(float(np.mean(highs)), 1)
    return low, high


def _modification_times(cases: Sequence[Case]) -> tuple[int, ...]:
    times = []
    for case in cases:
        for file in case.images:
            times.append(_modification_time(file))
    return tuple(times)


def _modification_time(file: Path) -> int:
    """In nanoseconds; 0 for a missing file."""
    path, _ = split_array_name(file)
    return path.stat().st_mtime_ns if path.exists() else 0
