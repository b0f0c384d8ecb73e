"""What a prediction says in numbers, region by region: how much, how sure, and how good it is likely to be."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int64, UInt16

from segpl.inference.levels import ENTROPY, FULL, HALF, PROBABILITY, counted, parts

MARGIN = 5.0
"""Millimetres around a mask that its uncertainty is taken over too: a border is where most doubt is."""
INTERVAL = 0.9
"""How often a volume should lie in its interval."""


class Numbers(NamedTuple):
    """Of one region. All but the volumes are undefined (NaN) where the mask is empty."""

    volume_ml: float
    volume_low_ml: float
    volume_high_ml: float
    """From where the probability exceeds 0.95 to where it exceeds 0.05: see `interval`."""
    expected_dice: float
    """The Dice that the probabilities promise: 2 sum(p m) / (sum(p) + sum(m)) for a mask m."""
    uncertainty: float
    """Mean entropy in bits of the mask and of what lies within 5 mm of it."""
    variance: float
    """Mean variance between the samples over the same voxels; NaN where there are no samples."""


def numbers(
    levels: UInt16[np.ndarray, "X Y Z"],
    spread: UInt16[np.ndarray, "X Y Z"] | None,
    spacing: tuple[float, float, float],
) -> Numbers:
    """From the levels of a region's probabilities, and of four times their variance, slab by slab."""
    every, near, spreads = (np.zeros(FULL + 1, dtype=np.int64) for _ in range(3))
    for part in parts(levels.shape):
        every += counted(levels[..., part])
        around = nearby(levels, part, spacing)
        near += counted(levels[..., part][around])
        if spread is not None:
            spreads += counted(spread[..., part][around])
    low, high = interval(every)
    inside, ml = every[HALF + 1 :], float(np.prod(spacing)) / 1000
    with np.errstate(invalid="ignore"):  # 0 / 0 where the mask is empty
        expected = 2 * (inside @ PROBABILITY[HALF + 1 :]) / (every @ PROBABILITY + inside.sum())
        uncertainty, variance = (
            near @ ENTROPY / near.sum(),
            spreads @ PROBABILITY / 4 / spreads.sum(),
        )
    expected = expected if inside.any() else np.nan
    return Numbers(
        inside.sum() * ml, low * ml, high * ml, float(expected), float(uncertainty), float(variance)
    )


def interval(every: Int64[np.ndarray, " 65536"]) -> tuple[int, int]:
    """Voxels of the smallest and the largest mask in a 90 % interval.

    The voxels of a border are wrong together, not one by one: whoever draws a little wider does so all around. So the
    true mask is taken to be where p exceeds some u that is unknown and equally likely anywhere in (0, 1), which is the
    widest spread of volumes that the probabilities allow. It needs no samples; where they differ, their mean lies
    between 0 and 1 and widens it.
    """
    edge = (1 - INTERVAL) / 2
    return int(every[1 - edge < PROBABILITY].sum()), int(every[edge < PROBABILITY].sum())


def nearby(
    levels: UInt16[np.ndarray, "X Y Z"], part: slice, spacing: tuple[float, float, float]
) -> Bool[np.ndarray, "X Y z"]:
    """Which voxels of these planes lie in the mask or within MARGIN of it."""
    import SimpleITK

    halo = int(np.ceil(MARGIN / spacing[2]))
    begin = max(0, part.start - halo)
    mask = levels[..., begin : part.stop + halo] > HALF
    near = np.zeros(mask.shape, dtype=bool)
    box = (
        _reach(np.any(mask, axis=(1, 2)), spacing[0]),
        _reach(np.any(mask, axis=(0, 2)), spacing[1]),
    )
    if mask.any():
        image = SimpleITK.GetImageFromArray(mask[box].T.astype(np.uint8))
        image.SetSpacing(spacing)
        away = SimpleITK.SignedMaurerDistanceMap(image, squaredDistance=False, useImageSpacing=True)
        near[box] = SimpleITK.GetArrayViewFromImage(away).T <= MARGIN
    return near[..., part.start - begin : part.stop - begin]


def _reach(occupied: Bool[np.ndarray, " n"], step: float) -> slice:
    """From MARGIN before the first occupied place to MARGIN after the last."""
    places = np.flatnonzero(occupied)
    margin = int(np.ceil(MARGIN / step))
    return (
        slice(max(0, places[0] - margin), places[-1] + margin + 1) if len(places) else slice(0, 0)
    )
