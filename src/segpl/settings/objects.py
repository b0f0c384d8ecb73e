"""What labels tell about the objects in them: how large and how fine they are, and how they hang together."""

from collections.abc import Sequence
from itertools import product
from math import ceil, floor
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped
from scipy import ndimage
from torch import Tensor

from segpl.data.cases import Case, Region
from segpl.data.formats import read_image
from segpl.data.formats.image import spacing as spacing_of
from segpl.data.preparation import resample, resampled_shape
from segpl.metrics.overlap import iou

MARGIN = 4
"""Voxels of the coarse grid that are kept around a region before its round trip."""
LARGEST = 16_000_000
"""Voxels of a region's box that make the round trip; of a larger box, the part around its middle."""
SPECKS = 0.05
"""Share of a region's voxels outside its largest component that is put down to careless drawing."""
WHOLE_SLICES = 0.98
"""Share of the slices that show a region in which it must be one component, where planning is by slices.

In the 158 training volumes of ACDC each of the three regions is one component in all slices (1228 to
1448). In 9 subjects of BraTS the whole tumour is in 90 % of 573 slices, the tumour core in 93 % of
394 and the enhancing core in 81 % of 373. So 98 % leaves room for a few slices with a drawing error
and still tells organs from lesions.
"""
ENOUGH_SUBJECTS = 3
"""Subjects that must show a region before anything is said about its components.

In 5 of the 9 subjects of BraTS the slices of the tumour core pass by chance: two of two subjects
would do so in 3 draws of 10, three of three in 1 of 8.
"""


class Label(NamedTuple):
    """A label map cropped to its foreground."""

    subject: str
    values: Shaped[np.ndarray, "X Y Z"]
    spacing: tuple[float, float, float]
    """Millimetres."""
    corner: tuple[int, int, int]
    """Where the crop begins in the image, in voxels."""

    def mask(self, region: Region) -> Bool[Tensor, "1 X Y Z"]:
        """The mask of one region: of many regions, all masks at once could fill the memory."""
        inside = np.zeros(self.values.shape, dtype=bool)
        for value in region.values:
            inside |= self.values == value
        return torch.from_numpy(inside)[None]

    def extent(self) -> tuple[float, float, float]:
        """The sides in mm of the box around all regions."""
        sides = extent(self.values != 0, self.spacing)
        assert sides, "an empty label is none"
        return sides


class Components(NamedTuple):
    """How often a region shows, and how often it then is a single connected component."""

    shown: int
    single: int


def read_label(case: Case, margin: float) -> Label | None:
    """The label of a case with `margin` mm around its foreground; none where it is empty."""
    assert case.label, "only labelled cases have objects"
    label = read_image(case.label)
    spacing = spacing_of(label.affine)
    values = label.values[0]
    around = [ceil(margin / step) for step in spacing]
    box = bounding_box(values != 0, around)
    if box is None:
        return None
    x, y, z = box
    return Label(case.subject, values[box].copy(), spacing, (x.start, y.start, z.start))


def bounding_box(
    mask: Bool[np.ndarray, "X Y Z"], margin: Sequence[int] = (0, 0, 0)
) -> tuple[slice, slice, slice] | None:
    """The smallest box that holds the mask, with `margin` voxels around it inside the image."""
    sides = []
    for axis in range(3):
        others = tuple(other for other in range(3) if other != axis)
        occupied = np.flatnonzero(mask.any(axis=others))
        if not len(occupied):
            return None
        start = max(int(occupied[0]) - margin[axis], 0)
        sides.append(slice(start, int(occupied[-1]) + 1 + margin[axis]))
    x, y, z = sides
    return x, y, z


def extent(
    mask: Bool[np.ndarray, "X Y Z"], spacing: Sequence[float]
) -> tuple[float, float, float] | None:
    """The sides in mm of the box around the foreground; none where there is no foreground."""
    box = bounding_box(mask)
    if box is None:
        return None
    x, y, z = [(side.stop - side.start) * step for side, step in zip(box, spacing, strict=True)]
    return x, y, z


def survival(
    mask: Bool[Tensor, "K X Y Z"],
    spacing: Sequence[float],
    coarse_spacing: Sequence[float],
    corner: Sequence[int] = (0, 0, 0),
) -> Float[Tensor, " K"]:
    """IoU of each region with itself after a round trip to another grid, nan where it is absent.

    No network that works on that grid can do better, apart from luck: it is given the share of each
    coarse voxel that the region fills. `corner` is where the mask begins in its image (voxels), from
    which the voxels of the coarse grid are counted.
    """
    values = [_survival_of_one(region, spacing, coarse_spacing, corner) for region in mask]
    return torch.tensor(values, dtype=torch.float32)


def _survival_of_one(
    region: Bool[Tensor, "X Y Z"],
    spacing: Sequence[float],
    coarse_spacing: Sequence[float],
    corner: Sequence[int],
) -> float:
    tight = bounding_box(region.numpy())
    if tight is None:
        return float("nan")
    box = []
    for axis, side in enumerate(tight):
        ratio = coarse_spacing[axis] / spacing[axis]
        box.append(_whole_voxels(side, ratio, corner[axis], region.shape[axis]))
    near = _middle(region[tuple(box)])[None]
    shape = tuple(near.shape[1:])
    coarse_shape = resampled_shape(shape, spacing, coarse_spacing)
    returned = resample(resample(near.float(), coarse_shape), shape) > 0.5
    return float(iou(returned, near)[0])


def _whole_voxels(side: slice, ratio: float, corner: int, size: int) -> slice:
    """A side with a margin around it that begins and ends where voxels of `ratio` times the width do."""
    first = floor((corner + side.start) / ratio) - MARGIN
    last = ceil((corner + side.stop) / ratio) + MARGIN
    start = round(first * ratio) - corner
    stop = round(last * ratio) - corner
    return slice(max(start, 0), min(stop, size))


def _middle(region: Bool[Tensor, "X Y Z"]) -> Bool[Tensor, "X Y z"]:
    """The slices around the one that halves the region, at most `LARGEST` voxels: vessels can fill a CT."""
    depth = max(1, LARGEST // (region.shape[0] * region.shape[1]))
    if depth >= region.shape[2]:
        return region
    up_to = np.cumsum(np.count_nonzero(region.numpy(), axis=(0, 1)))
    middle = int(np.searchsorted(up_to, up_to[-1] / 2))
    start = min(max(middle - depth // 2, 0), region.shape[2] - depth)
    return region[..., start : start + depth]


def components(mask: Bool[Tensor, "K X Y Z"], flat: bool, patch: Sequence[int]) -> list[Components]:
    """Of each region, in how many slices (`flat`) or volumes it shows and is a single component.

    A network sees patches, so a region counts as single where it is in every patch: a tree of
    vessels may be connected, but a patch shows some of its branches without the trunk.
    """
    counted = []
    for region in mask.numpy():
        box = bounding_box(region)
        if box is None:
            counted.append(Components(0, 0))
            continue
        volume = region[box]
        slices = np.moveaxis(volume, 2, 0)
        images = slices if flat else volume[None]
        shown = [image for image in images if image.any()]
        single = [image for image in shown if is_single(image, patch)]
        counted.append(Components(len(shown), len(single)))
    return counted


def is_single(mask: Bool[np.ndarray, "*space"], patch: Sequence[int]) -> bool:
    """Whether the largest component of each patch holds all voxels of the mask but a few specks.

    Voxels that touch at a corner are connected. The patches lie side by side, from the corner of
    the mask's array.
    """
    touching = ndimage.generate_binary_structure(mask.ndim, mask.ndim)
    corners = [range(0, size, step) for size, step in zip(mask.shape, patch, strict=True)]
    largest = 0
    for corner in product(*corners):
        box = [slice(start, start + step) for start, step in zip(corner, patch, strict=True)]
        part = mask[tuple(box)]
        if part.any():
            numbered, _ = ndimage.label(part, touching)
            largest += int(np.bincount(numbered[part]).max())
    return largest >= (1 - SPECKS) * int(mask.sum())


def single_component(subjects: Sequence[Components], flat: bool) -> bool:
    """Whether a region, counted subject by subject, may be taken for a single component everywhere.

    In volumes it must be one in all of them, in slices in `WHOLE_SLICES` of those that show it; and
    at least `ENOUGH_SUBJECTS` must show it.
    """
    showing = [subject for subject in subjects if subject.shown]
    if len(showing) < ENOUGH_SUBJECTS:
        return False
    shown = sum(subject.shown for subject in showing)
    single = sum(subject.single for subject in showing)
    return single >= (WHOLE_SLICES if flat else 1) * shown


def nested(regions: Sequence[Region]) -> list[tuple[int, int]]:
    """Pairs (child, parent) of regions, by number, where every voxel of the child is one of the parent."""
    pairs = []
    for child, inner in enumerate(regions):
        for parent, outer in enumerate(regions):
            if set(inner.values) < set(outer.values):
                pairs.append((child, parent))
    return pairs
