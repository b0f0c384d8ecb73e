"""The objects in labels: their size, whether they survive resampling, and their components."""

from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil, floor, prod, sqrt
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Shaped
from scipy import ndimage

from segpl.data.cases import Case, Region
from segpl.data.formats import read_image
from segpl.data.formats.image import spacing as spacing_of
from segpl.data.resampling import resample, resampled_shape
from segpl.metrics.overlap import iou

Mask = Bool[np.ndarray, "X Y Z"]
Sides = tuple[float, float, float]
"""Lengths along X, Y and Z."""
Box = tuple[slice, slice, slice]
"""A part of a volume along X, Y and Z."""

MARGIN = 4
"""Voxels of the coarse grid that are kept around a region before its round trip."""
MAX_VOXELS = 16_000_000
"""Voxels of a region's box that make the round trip; a larger box is cut to its middle."""
SPECKS = 0.05
"""Share of a region's voxels outside its largest component that counts as a drawing error."""
SINGLE_SLICES = 0.98
"""Share of the slices with a region in which it must be one component, where planning is 2D.

In the 158 training volumes of ACDC each of the three regions is one component in all slices (1228
to 1448). In 9 subjects of BraTS the whole tumour is one component in 90 % of 573 slices, the tumour
core in 93 % of 394 and the enhancing core in 81 % of 373. So 98 % tolerates a few slices with a
drawing error and still separates organs from lesions.
"""
MIN_SUBJECTS = 3
"""Subjects with a region that are needed before its components are judged.

In 5 of the 9 subjects of BraTS the slices of the tumour core pass by chance: two of two subjects
would do so in 3 draws of 10, three of three in 1 of 8.
"""

MAX_SIZE_ERROR = 0.15
"""Relative standard error up to which the mean size of a region counts as known.

Trainings with few labels were found to draw regions 5 to 30 % too large (docs/training.md), so a
mean that is known less well could do as much harm as good.
"""


class Label(NamedTuple):
    """A label map cropped to its foreground."""

    subject: str
    values: Shaped[np.ndarray, "X Y Z"]
    spacing: Sides
    """Millimetres."""
    corner: tuple[int, int, int]
    """The voxel of the image at which the crop begins."""

    def mask(self, region: Region) -> Mask:
        """The mask of one region. The masks of many regions at once could fill the memory."""
        mask = np.zeros(self.values.shape, dtype=bool)
        for value in region.values:
            mask |= self.values == value
        return mask

    def extent(self) -> Sides:
        """The sides in mm of the box around all regions."""
        sides = extent(self.values != 0, self.spacing)
        assert sides, "an empty label is never read as a Label"
        return sides


class Components(NamedTuple):
    """In how many images a region is present, and in how many of these it is one component."""

    present: int
    single: int


def read_label(case: Case, margin: float) -> Label | None:
    """The label of a case, cropped to its foreground and `margin` mm around it; None if empty."""
    assert case.label, "only labelled cases have objects"
    label = read_image(case.label)
    values = label.values[0]
    spacing = spacing_of(label.affine)
    margin_in_voxels = [ceil(margin / step) for step in spacing]
    box = bounding_box(values != 0, margin_in_voxels)
    if box is None:
        return None
    x, y, z = box
    corner = (x.start, y.start, z.start)
    return Label(case.subject, values[box].copy(), spacing, corner)


def bounding_box(mask: Mask, margin: Sequence[int] = (0, 0, 0)) -> Box | None:
    """The smallest box around the mask, plus `margin` voxels; None for an empty mask.

    The box begins inside the image, but its end may lie beyond it.
    """
    sides = []
    for axis in range(3):
        other_axes = tuple(other for other in range(3) if other != axis)
        occupied = np.flatnonzero(mask.any(axis=other_axes))
        if len(occupied) == 0:
            return None
        start = max(int(occupied[0]) - margin[axis], 0)
        stop = int(occupied[-1]) + 1 + margin[axis]
        sides.append(slice(start, stop))
    x, y, z = sides
    return x, y, z


def extent(mask: Mask, spacing: Sequence[float]) -> Sides | None:
    """The sides in mm of the box around the foreground; None for an empty mask."""
    box = bounding_box(mask)
    if box is None:
        return None
    sides = []
    for side, step in zip(box, spacing, strict=True):
        voxels = side.stop - side.start
        sides.append(voxels * step)
    x, y, z = sides
    return x, y, z


def round_trip_iou(
    mask: Mask,
    spacing: Sequence[float],
    coarse_spacing: Sequence[float],
    corner: Sequence[int] = (0, 0, 0),
) -> float:
    """IoU of a region with itself after resampling to another grid and back; nan for an empty mask.

    No network that works on that grid can do better, apart from luck, because the resampled mask
    holds the share of each coarse voxel that the region fills. `corner` is the voxel of the image
    at which the mask begins: the coarse grid is counted from the corner of the image.
    """
    tight = bounding_box(mask)
    if tight is None:
        return float("nan")
    box = []
    for axis, side in enumerate(tight):
        ratio = coarse_spacing[axis] / spacing[axis]
        size = mask.shape[axis]
        box.append(_align_to_coarse_voxels(side, ratio, corner[axis], size))
    cropped = _middle_slices(mask[tuple(box)])
    region = torch.from_numpy(cropped)[None]
    shape = tuple(region.shape[1:])
    coarse_shape = resampled_shape(shape, spacing, coarse_spacing)
    coarse = resample(region.float(), coarse_shape)
    restored = resample(coarse, shape) > 0.5
    return float(iou(restored, region)[0])


def _align_to_coarse_voxels(side: slice, ratio: float, corner: int, size: int) -> slice:
    """A side plus `MARGIN` coarse voxels, from the border of a coarse voxel to that of another.

    A coarse voxel is `ratio` voxels wide. The result stays within the `size` voxels of the mask.
    """
    first = floor((corner + side.start) / ratio) - MARGIN
    last = ceil((corner + side.stop) / ratio) + MARGIN
    start = round(first * ratio) - corner
    stop = round(last * ratio) - corner
    return slice(max(start, 0), min(stop, size))


def _middle_slices(mask: Mask) -> Bool[np.ndarray, "X Y z"]:
    """At most `MAX_VOXELS` voxels: the slices around the one that halves the region.

    Vessels can fill a whole CT scan.
    """
    width, height, depth = mask.shape
    kept_depth = max(1, MAX_VOXELS // (width * height))
    if kept_depth >= depth:
        return mask
    voxels_per_slice = np.count_nonzero(mask, axis=(0, 1))
    cumulated = np.cumsum(voxels_per_slice)
    middle = int(np.searchsorted(cumulated, cumulated[-1] / 2))
    start = max(middle - kept_depth // 2, 0)
    start = min(start, depth - kept_depth)
    return mask[..., start : start + kept_depth]


def count_components(mask: Mask, patch: Sequence[int]) -> Components:
    """Count the images with a region and those in which it is one component.

    The images are the slices of the mask for a 2D `patch` (voxels), and the whole mask for a 3D
    one. A network sees patches, so a region must be one component in every patch: a tree of
    vessels may be connected, but a patch shows some of its branches without the trunk.
    """
    box = bounding_box(mask)
    if box is None:
        return Components(0, 0)
    volume = mask[box]
    slices = np.moveaxis(volume, 2, 0)
    images = slices if len(patch) == 2 else volume[None]
    present = 0
    single = 0
    for image in images:
        if image.any():
            present += 1
            single += is_single_component(image, patch)
    return Components(present, single)


def is_single_component(mask: Bool[np.ndarray, "*space"], patch: Sequence[int]) -> bool:
    """Whether the largest components of all patches hold the whole mask but for a few specks.

    Voxels that touch at a corner are connected. The patches lie side by side and start at the
    corner of the array.
    """
    connectivity = ndimage.generate_binary_structure(mask.ndim, mask.ndim)
    in_largest = 0
    for piece in _patches(mask, patch):
        if piece.any():
            components, _ = ndimage.label(piece, connectivity)
            sizes = np.bincount(components[piece])
            in_largest += int(sizes.max())
    return in_largest >= (1 - SPECKS) * int(mask.sum())


def _patches(
    mask: Bool[np.ndarray, "*space"],
    patch: Sequence[int],
) -> Iterator[Bool[np.ndarray, "*patch"]]:
    """The mask in patches side by side; those at the far ends may be smaller."""
    starts_by_axis = []
    for size, step in zip(mask.shape, patch, strict=True):
        starts_by_axis.append(range(0, size, step))
    for corner in product(*starts_by_axis):
        box = [slice(start, start + step) for start, step in zip(corner, patch, strict=True)]
        yield mask[tuple(box)]


def is_always_single(subjects: Sequence[Components], dimensions: int) -> bool:
    """Whether a region, counted subject by subject, may be taken for one component everywhere.

    It must be one component in all volumes, or in `SINGLE_SLICES` of the slices that show it where
    planning is 2D. At least `MIN_SUBJECTS` must have it.
    """
    with_region = [subject for subject in subjects if subject.present > 0]
    if len(with_region) < MIN_SUBJECTS:
        return False
    present = sum(subject.present for subject in with_region)
    single = sum(subject.single for subject in with_region)
    required_share = SINGLE_SLICES if dimensions == 2 else 1
    return single >= required_share * present


def relative_error_of_mean_size(labels: Sequence[Label], region: Region) -> float:
    """The standard error of the mean volume of a region, as a share of the mean.

    Labels of one subject are not independent, so the number of subjects counts. Infinite if no
    label has the region.
    """
    volumes = []
    for label in labels:
        voxels = np.count_nonzero(label.mask(region))
        volumes.append(voxels * prod(label.spacing))
    mean = float(np.mean(volumes))
    if mean == 0:
        return float("inf")
    subjects = {label.subject for label in labels}
    return float(np.std(volumes, ddof=1)) / mean / sqrt(len(subjects))


def nested_pairs(regions: Sequence[Region]) -> list[tuple[int, int]]:
    """Pairs (child, parent) of region indices: every voxel of the child belongs to the parent."""
    pairs = []
    for child, inner in enumerate(regions):
        for parent, outer in enumerate(regions):
            if set(inner.values) < set(outer.values):
                pairs.append((child, parent))
    return pairs
