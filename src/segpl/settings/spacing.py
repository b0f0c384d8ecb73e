"""The spacing that images are resampled to.

A coarser grid lets a patch cover more of the image, as long as the labelled regions survive it.
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
import torch

from segpl.data.cases import Region
from segpl.data.formats import Grid
from segpl.settings.median_sizes import MedianSizes, in_voxels, spacings_of
from segpl.settings.objects import Label, round_trip_iou
from segpl.settings.planned import Planned

MIN_IOU = 0.9
"""Mean IoU that the most affected region must keep on a coarser grid."""
WORTHWHILE = 1.1
"""A grid that is less than this much coarser is not worth the interpolation."""
CANDIDATES = 8
"""Grids that are tried, in equal ratios, where labels do not survive the coarsest."""
ONE_SPACING = 1.25
"""Images whose spacings differ by at most this factor are left on their own grids."""


class Survival(NamedTuple):
    """A region and the mean IoU with itself that it keeps on another grid."""

    region: str
    iou: float


def plan_spacing(
    grids: Sequence[Grid],
    sizes: MedianSizes,
    labels: Sequence[Label],
    regions: Sequence[Region],
    voxels: int,
) -> Planned:
    """The coarsest useful grid that the labels survive, in mm; None keeps the images' own grids.

    The coarsest useful grid is the one on which a patch of `voxels` voxels covers the wanted view.
    """
    finest = min(sizes.spacing)
    coarsest = step_to_fit(sizes.spacing, sizes.view, voxels)
    view = sizes.describe_view()
    if coarsest < WORTHWHILE * finest:
        return _own_spacing(grids, sizes, f"even without a coarser grid, a patch covers {view}")
    if not labels:
        return _own_spacing(
            grids, sizes, "no label tells whether its regions survive a coarser grid"
        )

    unit = "mm" if any(grid.orientation for grid in grids) else "voxels"
    coarsest_survival = None
    for step in steps_to_try(finest, coarsest):
        spacing = coarsened(sizes.spacing, step)
        survival = worst_survival(labels, regions, spacing)
        if survival.iou >= MIN_IOU:
            reason = _reason(survival, coarsest_survival, f"{coarsest:.3g} {unit}", view)
            return Planned(spacing, f"{step:g} {unit}: {reason}")
        if coarsest_survival is None:
            coarsest_survival = survival
    too_little = f"{survival.region} would keep IoU {survival.iou:.2f} at {step:.3g} {unit}"
    return _own_spacing(grids, sizes, f"{too_little}, too little")


def _reason(survival: Survival, on_coarsest: Survival | None, coarsest: str, view: str) -> str:
    """Why a grid was chosen; `on_coarsest` is what ruled out the coarsest grid, if anything did."""
    keeps = f"{survival.region} keeps IoU {survival.iou:.2f} on this grid"
    if on_coarsest is None:
        return f"a patch then covers {view}; {keeps}"
    keeps_less = f"{on_coarsest.region} would keep IoU {on_coarsest.iou:.2f} at {coarsest}"
    return f"{keeps}; {keeps_less}, where a patch would cover {view}"


def step_to_fit(spacing: Sequence[float], view: Sequence[float], voxels: int) -> float:
    """The smallest step (mm) at which `view` (mm) has at most `voxels` voxels.

    Axes that are finer than the step are coarsened to it, the others keep their spacing. The step
    is never below the finest axis.
    """
    if prod(in_voxels(view, spacing)) <= voxels:
        return min(spacing)
    dimensions = len(spacing)
    fine_to_coarse = np.argsort(spacing, kind="stable").tolist()
    for count in range(1, dimensions):
        coarsened_axes = fine_to_coarse[:count]
        kept_axes = fine_to_coarse[count:]
        kept_voxels = prod(view[axis] / spacing[axis] for axis in kept_axes)
        view_to_divide = prod(view[axis] for axis in coarsened_axes)
        step = (view_to_divide * kept_voxels / voxels) ** (1 / count)
        if step <= spacing[kept_axes[0]]:
            return step
    return (prod(view) / voxels) ** (1 / dimensions)


def steps_to_try(finest: float, coarsest: float) -> list[float]:
    """Steps from the coarsest to the finest, without those hardly coarser than the images."""
    steps = np.geomspace(coarsest, finest, CANDIDATES + 1).tolist()
    return [float(f"{step:.3g}") for step in steps if step >= WORTHWHILE * finest]


def coarsened(spacing: Sequence[float], step: float) -> list[float]:
    """The spacing with every axis at least `step` mm."""
    return _rounded([max(axis, step) for axis in spacing])


def worst_survival(
    labels: Sequence[Label],
    regions: Sequence[Region],
    spacing: Sequence[float],
) -> Survival:
    """The region that keeps the lowest mean IoU over the labels on a grid of this spacing (mm).

    A 2D spacing leaves the distance between slices as it is.
    """
    worst = Survival("", float("inf"))
    for region in regions:
        mean_iou = _mean_round_trip_iou(labels, region, spacing)
        if mean_iou < worst.iou:
            worst = Survival(region.name, mean_iou)
    return worst


def _mean_round_trip_iou(
    labels: Sequence[Label],
    region: Region,
    spacing: Sequence[float],
) -> float:
    """The mean over the labels that have the region; nan if none has."""
    ious = []
    for label in labels:
        coarse_spacing = [*spacing, label.spacing[2]][:3]
        mask = label.mask(region)
        ious.append(round_trip_iou(mask, label.spacing, coarse_spacing, label.corner))
    return float(torch.tensor(ious, dtype=torch.float32).nanmean())


def _own_spacing(grids: Sequence[Grid], sizes: MedianSizes, why: str) -> Planned:
    """The spacing of the images: None if they agree, else the median."""
    dimensions = len(sizes.spacing)
    spacings = spacings_of(grids, dimensions)
    ratios = spacings.max(axis=0) / spacings.min(axis=0)
    if ratios.max() <= ONE_SPACING:
        return Planned(None, f"the images have one spacing, within a quarter; {why}")
    return Planned(_rounded(sizes.spacing), f"the median, because spacings differ; {why}")


def _rounded(spacing: Sequence[float]) -> list[float]:
    """To five significant digits, whether in metres or in micrometres."""
    return [float(f"{step:.5g}") for step in spacing]
