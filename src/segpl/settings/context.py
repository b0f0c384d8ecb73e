"""Which grid and patch let a network see an object with its surroundings, and still see it well."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
import torch

from segpl.data.cases import Region
from segpl.data.formats import Grid
from segpl.settings.objects import Label, survival
from segpl.settings.planned import Planned

PLANE = 128 * 128
"""Pixels that a 2D patch should have."""
VOLUME = 96 * 80 * 32
"""Voxels that a 3D patch should have."""
SLACK = 1.15
"""How far a patch may exceed that, rather than lose a whole step along an axis."""
SEEN = 0.8
"""Share of the median image's sides that a patch should cover."""
SURROUNDINGS = 3
"""A patch need not cover more than this many times the object: its width again on either side.

So a small organ in a large scan is not blurred for the sake of distant surroundings.
"""
KEPT = 0.9
"""IoU that the region which suffers most must keep, on average, on a coarser grid."""
WORTHWHILE = 1.1
"""A grid that is less than this much coarser is not worth the interpolation."""
CANDIDATES = 8
"""Grids that are tried, in equal ratios, where labels do not survive the coarsest."""
NEARLY = 0.9
"""Share of the wanted view that will do along an axis: patches come in steps."""
ROOMY = 1.5
"""Where no axis can spare any, those that exceed the object this many times shrink first."""
SMALLEST = 16
"""Sides of a patch in the plane; smaller images are filled up to this with background."""


def wanted_view(image: Sequence[float], objects: Sequence[float] | None) -> list[float]:
    """The sides in mm that a patch should cover, from those of the median image and object."""
    sides = [SEEN * side for side in image]
    if objects is None:
        return sides
    around = [SURROUNDINGS * side for side in objects]
    return [min(pair) for pair in zip(sides, around, strict=True)]


def coarsened(native: Sequence[float], step: float) -> list[float]:
    """The spacing with every axis at least `step` mm: the finest axes are coarsened first."""
    return _rounded([max(axis, step) for axis in native])


def step_to_fit(native: Sequence[float], view: Sequence[float], voxels: int) -> float:
    """The smallest step (mm) at which `view` (mm) has at most `voxels` voxels; at least the finest axis."""
    order = [int(axis) for axis in np.argsort(native, kind="stable")]
    if prod(side / axis for side, axis in zip(view, native, strict=True)) <= voxels:
        return min(native)
    for count in range(1, len(native)):
        fine = order[:count]
        thick = order[count:]
        across = prod(view[axis] / native[axis] for axis in thick)
        step = (prod(view[axis] for axis in fine) * across / voxels) ** (1 / count)
        if step <= native[thick[0]]:
            return step
    return (prod(view) / voxels) ** (1 / len(native))


def steps_to_try(finest: float, coarsest: float) -> list[float]:
    """From the coarsest to the finest, without those that are hardly coarser than the images."""
    steps = np.geomspace(coarsest, finest, CANDIDATES + 1).tolist()
    return [float(f"{step:.3g}") for step in steps if step >= WORTHWHILE * finest]


def fit_patch(
    image: Sequence[int], view: Sequence[float], objects: Sequence[float] | None
) -> list[int]:
    """The patch for a median image, a wanted view and a median object, all in voxels of one grid.

    It begins as large as the image and shrinks: while an axis can spare it, the one that covers most
    of its view; then the longest of those that are far longer than the object, or the longest of all.
    """
    flat = len(image) == 2
    step = 16 if flat else 8
    least = [SMALLEST, SMALLEST] if flat else [SMALLEST, SMALLEST, min(step, image[2])]
    patch = [
        max(_to_steps(size, step), smallest) for size, smallest in zip(image, least, strict=True)
    ]
    roomy = [ROOMY * side for side in objects] if objects else [0.0] * len(image)
    while prod(patch) > SLACK * (PLANE if flat else VOLUME):
        axes = [axis for axis, size in enumerate(patch) if size - step >= least[axis]]
        spare = [axis for axis in axes if patch[axis] - step >= NEARLY * view[axis]]
        long = [axis for axis in axes if patch[axis] > roomy[axis]]
        if spare:
            chosen = max(spare, key=lambda axis: patch[axis] / view[axis])
        else:
            chosen = max(long or axes, key=lambda axis: patch[axis])
        patch[chosen] -= step
    return patch


def _to_steps(size: int, step: int) -> int:
    """The nearest multiple of `step`, by which a U-Net can halve it; sizes below it stay as they are.

    Rounded up, a volume of 35 x 50 x 35 would be trained on half as many voxels again, all padding.
    """
    return size if size < step else step * int(size / step + 0.5)


class Surroundings(NamedTuple):
    """The median image and object of a data set, along two axes for slices and three for volumes."""

    native: list[float]
    """Millimetres between voxels."""
    image: list[float]
    """Sides in millimetres."""
    objects: list[float] | None
    """Sides in millimetres of the box around the foreground; none where no label shows any."""

    @property
    def view(self) -> list[float]:
        """The sides in millimetres that a patch should cover."""
        return wanted_view(self.image, self.objects)


class Survivor(NamedTuple):
    """The region that suffers most on a grid, and the IoU that it keeps there on average."""

    region: str
    iou: float


def surroundings(grids: Sequence[Grid], labels: Sequence[Label], flat: bool) -> Surroundings:
    """The medians over all images and over the labels that were read."""
    axes = 2 if flat else 3
    spacings = np.array([grid.spacing for grid in grids])[:, :axes]
    shapes = np.array([grid.shape for grid in grids])[:, :axes]
    extents = [label.extent()[:axes] for label in labels]
    return Surroundings(
        native=np.median(spacings, axis=0).tolist(),
        image=np.median(shapes * spacings, axis=0).tolist(),
        objects=np.median(extents, axis=0).tolist() if extents else None,
    )


def worst_survival(
    labels: Sequence[Label], regions: Sequence[Region], spacing: Sequence[float]
) -> Survivor:
    """The region with the lowest mean survival over the labels; through slices, labels keep their spacing."""
    worst = Survivor("", float("inf"))
    for region in regions:
        kept = []
        for label in labels:
            wanted = [*spacing, label.spacing[2]][:3]
            kept.append(survival(label.mask(region), label.spacing, wanted, label.corner))
        mean = float(torch.cat(kept).nanmean())
        if mean < worst.iou:
            worst = Survivor(region.name, mean)
    return worst


def plan_spacing(
    grids: Sequence[Grid],
    around: Surroundings,
    labels: Sequence[Label],
    regions: Sequence[Region],
    voxels: int,
) -> Planned:
    """The coarsest grid that the wanted view asks for and that the labels survive; none is the images' own."""
    finest = min(around.native)
    coarsest = step_to_fit(around.native, around.view, voxels)
    unit = "mm" if any(grid.orientation for grid in grids) else "voxels"
    if coarsest < WORTHWHILE * finest:
        return _own_grid(grids, around, f"a patch covers {_goal(around)} without a coarser grid")
    if not labels:
        return _own_grid(grids, around, "no label tells whether its regions survive a coarser grid")
    failed = None
    for step in steps_to_try(finest, coarsest):
        spacing = coarsened(around.native, step)
        kept = worst_survival(labels, regions, spacing)
        if kept.iou < KEPT:
            failed = failed or kept
            continue
        keeps = f"{kept.region} keeps IoU {kept.iou:.2f} on this grid"
        if failed is None:
            return Planned(
                spacing, f"{step:g} {unit}: a patch then covers {_goal(around)}; {keeps}"
            )
        less = f"{failed.region} would keep IoU {failed.iou:.2f} at {coarsest:.3g} {unit}"
        return Planned(
            spacing, f"{step:g} {unit}: {keeps}; {less}, where a patch would cover {_goal(around)}"
        )
    assert failed
    return _own_grid(
        grids,
        around,
        f"{kept.region} would keep IoU {kept.iou:.2f} at {step:.3g} {unit}, too little",
    )


def _own_grid(grids: Sequence[Grid], around: Surroundings, why: str) -> Planned:
    """The spacing of the images: none where they agree, else the median."""
    spacings = np.array([grid.spacing for grid in grids])[:, : len(around.native)]
    if (spacings.max(axis=0) / spacings.min(axis=0)).max() <= 1.25:
        return Planned(None, f"the images have one spacing, within a quarter; {why}")
    return Planned(_rounded(around.native), f"the median, because spacings differ; {why}")


def _goal(around: Surroundings) -> str:
    """What a patch should cover, in words."""
    image = "slice" if len(around.image) == 2 else "volume"
    share = f"{100 * SEEN:.0f} % of the median {image}"
    if around.view == wanted_view(around.image, None):
        return share
    return f"{share}, or {SURROUNDINGS} times the object where that is less"


def plan_patch(around: Surroundings, spacing: Sequence[float], dimensions: str) -> Planned:
    """The patch on a grid of this spacing (mm); `dimensions` says why it is 2D or 3D."""
    image = [max(1, round(n)) for n in _in_voxels(around.image, spacing)]
    view = _in_voxels(around.view, spacing)
    objects = _in_voxels(around.objects, spacing) if around.objects else None
    patch = fit_patch(image, view, objects)
    kind = "slice" if len(patch) == 2 else "volume"
    covered = [min(size / side, 1) for size, side in zip(patch, image, strict=True)]
    shares = " x ".join(f"{100 * share:.0f}" for share in covered)
    why = f"{dimensions}; it covers {shares} % of the median {kind}"
    if objects:
        times = [size / side for size, side in zip(patch, objects, strict=True)]
        why += f" and {min(times):.1f} times the median object or more"
    return Planned(patch, why)


def _in_voxels(sides: Sequence[float], spacing: Sequence[float]) -> list[float]:
    return [side / step for side, step in zip(sides, spacing, strict=True)]


def _rounded(spacing: Sequence[float]) -> list[float]:
    """To five digits, whether in metres or in micrometres."""
    return [float(f"{step:.5g}") for step in spacing]
