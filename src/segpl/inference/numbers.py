"""The numbers of a predicted region: its volume, its uncertainty and the Dice to expect."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int64

from segpl.inference.levels import (
    ENTROPY,
    FULL,
    HALF,
    PROBABILITY,
    LevelVolume,
    count_levels,
    z_slabs,
)

Spacing = tuple[float, float, float]
Mask = Bool[np.ndarray, "X Y Z"]
Counts = Int64[np.ndarray, " 65536"]
"""The number of voxels at each level of probability."""

MARGIN = 5.0
"""Millimetres around a mask whose uncertainty counts too: most doubt is at the border."""
INTERVAL = 0.9
"""The share of volumes that should fall into their interval."""


class RegionNumbers(NamedTuple):
    """The numbers of one region. All but the volumes are NaN where the mask is empty."""

    volume_ml: float
    volume_low_ml: float
    volume_high_ml: float
    """From where the probability exceeds 0.95 to where it exceeds 0.05: see `interval`.

    A threshold outside these two widens the interval to the volume of the mask."""
    expected_dice: float
    """The Dice expected from the probabilities: 2 sum(p m) / (sum(p) + sum(m)) for a mask m."""
    uncertainty: float
    """Mean entropy, in bits, of the mask and its surroundings within 5 mm."""
    variance: float
    """Mean variance between the samples over the same voxels; NaN without samples."""


def region_numbers(
    levels: LevelVolume,
    mask_levels: LevelVolume,
    variance_levels: LevelVolume | None,
    spacing: Spacing,
) -> RegionNumbers:
    """The numbers from the levels of p and of four times its variance, counted slab by slab.

    The mask is where `mask_levels` exceed 1/2.
    """
    counts = np.zeros(FULL + 1, dtype=np.int64)
    counts_inside = np.zeros(FULL + 1, dtype=np.int64)
    counts_near = np.zeros(FULL + 1, dtype=np.int64)
    variance_counts_near = np.zeros(FULL + 1, dtype=np.int64)
    for planes in z_slabs(levels.shape):
        near = near_mask(mask_levels, planes, spacing)
        slab = levels[..., planes]
        inside = mask_levels[..., planes] > HALF
        counts += count_levels(slab)
        counts_inside += count_levels(slab[inside])
        counts_near += count_levels(slab[near])
        if variance_levels is not None:
            variance_slab = variance_levels[..., planes]
            variance_counts_near += count_levels(variance_slab[near])
    ml_per_voxel = float(np.prod(spacing)) / 1000
    voxels = counts_inside.sum()
    low, high = interval(counts)
    return RegionNumbers(
        volume_ml=voxels * ml_per_voxel,
        volume_low_ml=min(low, voxels) * ml_per_voxel,
        volume_high_ml=max(high, voxels) * ml_per_voxel,
        expected_dice=_expected_dice(counts, counts_inside),
        uncertainty=_mean(ENTROPY, counts_near),
        variance=_mean(PROBABILITY, variance_counts_near) / 4,
    )


def interval(counts: Counts) -> tuple[int, int]:
    """The voxels of the smallest and of the largest mask in a 90 % interval.

    The voxels of a border are wrong together: an expert who draws wider does so all around. So the
    true mask is taken to be where p exceeds an unknown u, uniform in (0, 1). This gives the widest
    distribution of volumes that the probabilities allow, and needs no samples. Where the members
    of an ensemble differ, their mean lies between 0 and 1 and widens the interval.
    """
    tail = (1 - INTERVAL) / 2
    smallest = counts[1 - tail < PROBABILITY].sum()
    largest = counts[tail < PROBABILITY].sum()
    return int(smallest), int(largest)


def near_mask(
    mask_levels: LevelVolume,
    planes: slice,
    spacing: Spacing,
) -> Bool[np.ndarray, "X Y z"]:
    """Which voxels of these planes are in the mask or within MARGIN of it."""
    margin_planes = int(np.ceil(MARGIN / spacing[2]))
    first = max(0, planes.start - margin_planes)
    end = planes.stop + margin_planes
    mask = mask_levels[..., first:end] > HALF
    near = np.zeros(mask.shape, dtype=bool)
    if mask.any():
        columns_with_mask = np.any(mask, axis=(1, 2))
        rows_with_mask = np.any(mask, axis=(0, 2))
        columns = _with_margin(columns_with_mask, spacing[0])
        rows = _with_margin(rows_with_mask, spacing[1])
        near[columns, rows] = _within_margin(mask[columns, rows], spacing)
    return near[..., planes.start - first : planes.stop - first]


def _within_margin(mask: Bool[np.ndarray, "X Y Z"], spacing: Spacing) -> Bool[np.ndarray, "X Y Z"]:
    """Which voxels are in the mask or within MARGIN of it, by exact Euclidean distance."""
    import SimpleITK

    image = SimpleITK.GetImageFromArray(mask.T.astype(np.uint8))
    image.SetSpacing(spacing)
    distance = SimpleITK.SignedMaurerDistanceMap(image, squaredDistance=False, useImageSpacing=True)
    return SimpleITK.GetArrayViewFromImage(distance).T <= MARGIN


def _with_margin(occupied: Bool[np.ndarray, " n"], step: float) -> slice:
    """From MARGIN before the first occupied index to MARGIN after the last one."""
    indices = np.flatnonzero(occupied)
    margin = int(np.ceil(MARGIN / step))
    start = max(0, indices[0] - margin)
    end = indices[-1] + margin + 1
    return slice(start, end)


def _expected_dice(counts: Counts, counts_inside: Counts) -> float:
    """2 sum(p m) / (sum(p) + sum(m)) for a mask m; NaN where the mask is empty.

    `counts` are those of all voxels, `counts_inside` those of the mask.
    """
    if not counts_inside.any():
        return float("nan")
    sum_inside = counts_inside @ PROBABILITY
    sum_everywhere = counts @ PROBABILITY
    return float(2 * sum_inside / (sum_everywhere + counts_inside.sum()))


def _mean(value_of_level: np.ndarray, counts: Counts) -> float:
    """The mean of a function of the level over the counted voxels; NaN without any."""
    if not counts.any():
        return float("nan")
    return float(counts @ value_of_level / counts.sum())
