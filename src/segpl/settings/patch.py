"""The patch: the part of an image that a network sees at once."""

from collections.abc import Sequence
from math import prod

from segpl.settings.median_sizes import MedianSizes, in_voxels
from segpl.settings.planned import Planned

PLANE = 128 * 128
"""Pixels that a 2D patch should have."""
VOLUME = 96 * 80 * 32
"""Voxels that a 3D patch should have."""
SLACK = 1.15
"""How far a patch may exceed that, rather than lose a whole step along an axis."""
ENOUGH_VIEW = 0.9
"""Share of the wanted view that is enough along an axis, because patches come in steps."""
ROOMY = 1.5
"""Where no axis can spare a step, axes that exceed the object this many times shrink first."""
SMALLEST = 16
"""Smallest side of a patch in the plane; smaller images are padded to it."""


def plan_patch(sizes: MedianSizes, spacing: Sequence[float], why_dimensions: str) -> Planned:
    """The patch on a grid of this spacing (mm); `why_dimensions` tells why it is 2D or 3D."""
    image = [max(1, round(side)) for side in in_voxels(sizes.image, spacing)]
    view = in_voxels(sizes.view, spacing)
    objects = None
    if sizes.objects:
        objects = in_voxels(sizes.objects, spacing)
    patch = fit_patch(image, view, objects)
    why = f"{why_dimensions}; {_describe_coverage(patch, image, objects)}"
    return Planned(patch, why)


def fit_patch(
    image: Sequence[int],
    view: Sequence[float],
    objects: Sequence[float] | None,
) -> list[int]:
    """The patch for a median image, a wanted view and a median object, all in voxels of one grid.

    It begins as large as the image and shrinks step by step until it has few enough voxels.
    """
    dimensions = len(image)
    step = 16 if dimensions == 2 else 8
    smallest = _smallest_patch(image, step)
    patch = _rounded_image(image, smallest, step)
    most_voxels = SLACK * patch_voxels(dimensions)
    while prod(patch) > most_voxels:
        axis = _axis_to_shrink(patch, step, smallest, view, objects)
        patch[axis] -= step
    return patch


def patch_voxels(dimensions: int) -> int:
    """How many pixels or voxels a patch should have."""
    return PLANE if dimensions == 2 else VOLUME


def _smallest_patch(image: Sequence[int], step: int) -> list[int]:
    if len(image) == 2:
        return [SMALLEST, SMALLEST]
    return [SMALLEST, SMALLEST, min(step, image[2])]


def _rounded_image(image: Sequence[int], smallest: Sequence[int], step: int) -> list[int]:
    """The largest patch: the image in whole steps, padded to the smallest patch."""
    patch = []
    for size, least in zip(image, smallest, strict=True):
        patch.append(max(_round_to_step(size, step), least))
    return patch


def _round_to_step(size: int, step: int) -> int:
    """The nearest multiple of `step`, which a U-Net can halve; smaller sizes stay as they are.

    Rounded up, a volume of 35 x 50 x 35 would be trained on half as many voxels again, all padding.
    """
    if size < step:
        return size
    return step * int(size / step + 0.5)


def _axis_to_shrink(
    patch: Sequence[int],
    step: int,
    smallest: Sequence[int],
    view: Sequence[float],
    objects: Sequence[float] | None,
) -> int:
    """The axis that can best do with one step less.

    Among axes that would still cover enough of the view: the one that covers most of it. Otherwise
    the longest of those that are far longer than the object, or else the longest of all.
    """
    shrinkable = []
    sparing = []
    roomy = []
    for axis, size in enumerate(patch):
        if size - step < smallest[axis]:
            continue
        shrinkable.append(axis)
        if size - step >= ENOUGH_VIEW * view[axis]:
            sparing.append(axis)
        if objects is None or size > ROOMY * objects[axis]:
            roomy.append(axis)
    if sparing:
        return max(sparing, key=lambda axis: patch[axis] / view[axis])
    candidates = roomy if roomy else shrinkable
    return max(candidates, key=lambda axis: patch[axis])


def _describe_coverage(
    patch: Sequence[int],
    image: Sequence[int],
    objects: Sequence[float] | None,
) -> str:
    kind = "slice" if len(patch) == 2 else "volume"
    shares = []
    for size, side in zip(patch, image, strict=True):
        covered = min(size / side, 1)
        shares.append(f"{100 * covered:.0f}")
    description = f"it covers {' x '.join(shares)} % of the median {kind}"
    if objects:
        multiples = [size / side for size, side in zip(patch, objects, strict=True)]
        description += f" and at least {min(multiples):.1f} times the median object"
    return description
