"""The batch of step s: which images, and which patches of them. A pure function of seed and s."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.data import Dataset as TorchDataset

from segpl.data.preparation import Place, Volume
from segpl.em.types import Batch
from segpl.foundation.draws import Stream, generator, seeds
from segpl.foundation.errors import UserError

MAX_CENTRES = 2000
"""Foreground voxels of a volume and region that are kept as possible centres of patches."""

Centres = Sequence[Shaped[np.ndarray, "_ 3"]]
"""Foreground voxels of a volume, one array per region that it has."""
VolumePlace = tuple[int, tuple[int, int, int]]
"""The index of a volume, and the first voxel of a crop of it."""


class LabelledPatches(NamedTuple):
    """Labelled patches of a step."""

    x: Float[Tensor, "L C *space"]
    y: Float[Tensor, "L K *space"]
    ignored: Float[Tensor, "L 1 *space"] | None
    """1 where a voxel does not count; None if no label has such voxels."""


@dataclass(frozen=True)
class Steps(TorchDataset[Batch]):
    """`steps[s]` is the batch of step s.

    It has `batch` labelled patches, as many partners, and `batch * ratio` unlabelled patches.
    """

    labelled: Sequence[Volume]
    unlabelled: Sequence[Volume]
    seed: int
    patch: tuple[int, ...]
    batch: int
    ratio: int
    foreground: float
    """Share of the patches that are centred on foreground."""
    process: int = 0
    processes: int = 1
    """Processes share the images of a step: process i takes every Nth image from the i-th on."""
    centres: dict[int, Centres] = field(default_factory=dict, compare=False, repr=False)
    """Foreground voxels by index of the labelled volume, filled at the first use of a volume."""

    def __getitem__(self, step: int) -> Batch:
        unlabelled_count = self.batch * self.ratio if self.unlabelled else 0
        image_count = self.batch + unlabelled_count
        image_seeds = seeds(self.seed, Stream.METHOD, step, count=image_count)
        labelled = self._labelled_patches(step, Stream.LABELLED_ORDER, Stream.LABELLED_CROP)
        partners = self._labelled_patches(step, Stream.PARTNER_ORDER, Stream.PARTNER_CROP)
        x_l = labelled.x
        no_images = x_l.new_empty(0, *x_l.shape[1:])
        x_u = []
        for position in range(unlabelled_count)[self._own_images]:
            image_number = step * unlabelled_count + position
            x_u.append(self._unlabelled_patch(image_number))
        return Batch(
            x_l=x_l,
            y_l=labelled.y,
            x_p=partners.x,
            y_p=partners.y,
            x_u=torch.stack(x_u) if x_u else no_images,
            seeds_l=image_seeds[: self.batch][self._own_images],
            seeds_u=image_seeds[self.batch :][self._own_images],
            ignored_l=labelled.ignored,
            ignored_p=partners.ignored,
        )

    @property
    def _own_images(self) -> slice:
        """The images of a step that belong to this process."""
        return slice(self.process, None, self.processes)

    def _labelled_patches(
        self,
        step: int,
        order: Stream,
        crops: Stream,
    ) -> LabelledPatches:
        """The labelled patches of a step, and their labels.

        `order` and `crops` are the streams that draw the volumes and the positions of the patches.
        """
        images = []
        labels = []
        ignored = []
        for position in range(self.batch)[self._own_images]:
            image_number = step * self.batch + position
            index = volume_index(self.seed, order, image_number, len(self.labelled))
            volume = self.labelled[index]
            assert volume.y is not None
            rng = generator(self.seed, crops, image_number)
            corner = self._draw_corner(volume, rng, self._labelled_centres(index))
            images.append(crop(volume.x, corner, self.patch))
            labels.append(crop(volume.y, corner, self.patch).float())
            if self._has_ignored:
                ignored.append(crop(_ignored(volume), corner, self.patch).float())
        return LabelledPatches(
            torch.stack(images),
            torch.stack(labels),
            torch.stack(ignored) if ignored else None,
        )

    @cached_property
    def _has_ignored(self) -> bool:
        """Whether any label has voxels that do not count; then every batch says which."""
        return any(volume.ignored is not None for volume in self.labelled)

    def _unlabelled_patch(self, image_number: int) -> Float[Tensor, "C *space"]:
        """A patch of an unlabelled volume.

        Its foreground is unknown, but scans of one protocol are alike: the patch is centred where a
        labelled volume, stretched to the shape of this one, has foreground.
        """
        index = volume_index(self.seed, Stream.UNLABELLED_ORDER, image_number, len(self.unlabelled))
        volume = self.unlabelled[index]
        rng = generator(self.seed, Stream.UNLABELLED_CROP, image_number)
        labelled_index = int(rng.integers(len(self.labelled)))
        corner_of_labelled, labelled_shape = _place(self.labelled[labelled_index])
        stretch = np.array(volume.x.shape[1:]) / labelled_shape
        centres = []
        for voxels in self._labelled_centres(labelled_index):
            centres.append((voxels + corner_of_labelled + 0.5) * stretch)
        corner = self._draw_corner(volume, rng, centres)
        return crop(volume.x, corner, self.patch)

    def _draw_corner(self, volume: Volume, rng: np.random.Generator, centres: Centres) -> list[int]:
        """Where the patch begins: anywhere, or such that its centre is a foreground voxel.

        A region is drawn before the voxel, so that small regions are not neglected.
        """
        size = np.array(patch_in_3d(self.patch))
        shape = np.array(volume.x.shape[1:])
        last_corner = np.maximum(shape - size, 0)
        anywhere = rng.integers(last_corner + 1)
        if not centres or rng.uniform() >= self.foreground:
            return anywhere.tolist()
        region_index = int(rng.integers(len(centres)))
        region = centres[region_index]
        centre = region[rng.integers(len(region))].astype(int)
        return np.clip(centre - size // 2, 0, last_corner).tolist()

    def _labelled_centres(self, index: int) -> Centres:
        """Foreground voxels of a labelled volume, region by region, found at the first use."""
        if index not in self.centres:
            rng = generator(self.seed, Stream.FOREGROUND, index)
            self.centres[index] = draw_centres(self.labelled[index], rng)
        return self.centres[index]


@dataclass(frozen=True)
class JoinedSteps(TorchDataset[Batch]):
    """`steps[s]` holds the batches that several sequences have for step s, one after the other."""

    sequences: tuple[Steps, ...]

    def __getitem__(self, step: int) -> Batch:
        return Batch.join([steps[step] for steps in self.sequences])

    def of_process(self, process: int, processes: int) -> "JoinedSteps":
        """The share of one of several processes: the same share of each batch."""
        shares = []
        for steps in self.sequences:
            shares.append(replace(steps, process=process, processes=processes))
        return JoinedSteps(tuple(shares))


def join_steps(steps: Steps, count: int) -> JoinedSteps:
    """`steps` and `count - 1` further sequences on the same volumes, each with its own draws."""
    own_seeds = seeds(steps.seed, Stream.BATCHES, count=count - 1).tolist()
    others = [replace(steps, seed=seed, centres={}) for seed in own_seeds]
    return JoinedSteps((steps, *others))


def _ignored(volume: Volume) -> Bool[Tensor, "1 X Y Z"]:
    """The voxels that do not count."""
    if volume.ignored is not None:
        return volume.ignored
    return torch.zeros(1, *volume.x.shape[1:], dtype=torch.bool)


def _place(volume: Volume) -> Place:
    """The place of a volume in its scan."""
    if volume.place is not None:
        return volume.place
    x, y, z = volume.x.shape[1:]
    return Place(corner=(0, 0, 0), scan_shape=(x, y, z))


def draw_centres(volume: Volume, rng: np.random.Generator) -> Centres:
    """At most `MAX_CENTRES` foreground voxels of each region that the volume has.

    All voxels of thousands of volumes would fill the memory.
    """
    assert volume.y is not None
    centres = []
    for region in volume.y:
        voxels = np.argwhere(region.numpy()).astype(np.int32)
        if len(voxels) > MAX_CENTRES:
            voxels = rng.choice(voxels, MAX_CENTRES, replace=False)
        if len(voxels) > 0:
            centres.append(voxels)
    return centres


def volume_index(seed: int, stream: Stream, image_number: int, count: int) -> int:
    """The volume that gives the image of this number, counted over all steps.

    All `count` volumes are used once, in a random order, before any is used again.
    """
    lap, position = divmod(image_number, count)
    return int(_order(seed, stream, lap, count)[position])


@lru_cache(maxsize=8)
def _order(seed: int, stream: Stream, lap: int, count: int) -> np.ndarray:
    return generator(seed, stream, lap).permutation(count)


def keep_slices(volumes: Sequence[Volume], count: int, seed: int) -> list[Volume]:
    """Volumes that hold `count` of the slices, drawn over all volumes.

    Slices that show a region are drawn first, others only when there are no more of them. Volumes
    without a drawn slice are left out. The slices of a smaller count are among those of a larger
    one.
    """
    with_region: list[tuple[int, int]] = []
    without_region: list[tuple[int, int]] = []
    for index, volume in enumerate(volumes):
        slices_with_region = _slices_with_region(volume)
        for z in range(volume.x.shape[-1]):
            candidates = with_region if z in slices_with_region else without_region
            candidates.append((index, z))
    available = len(with_region) + len(without_region)
    if count > available:
        raise UserError(
            f"slices is {count}, but the labelled subjects have {available} slices: "
            "ask for no more slices."
        )
    rng = generator(seed, Stream.SLICES)
    drawn = []
    for candidates in (with_region, without_region):
        for position in rng.permutation(len(candidates)):
            drawn.append(candidates[position])
    chosen = sorted(drawn[:count])
    kept = []
    for index, volume in enumerate(volumes):
        slices = [z for chosen_index, z in chosen if chosen_index == index]
        if slices and volume.y is not None:
            x = volume.x[..., slices]
            y = volume.y[..., slices]
            ignored = None if volume.ignored is None else volume.ignored[..., slices]
            kept.append(Volume(volume.case, x, y, ignored=ignored))
    return kept


def _slices_with_region(volume: Volume) -> list[int]:
    """The slices with foreground; none without a label."""
    if volume.y is None:
        return []
    has_foreground = volume.y.flatten(0, 2).any(0)
    return has_foreground.nonzero().flatten().tolist()


def keep_crops(
    volumes: Sequence[Volume],
    count: int,
    patch: tuple[int, ...],
    seed: int,
) -> list[Volume]:
    """`count` crops of the patch's size that show a region, drawn over all volumes.

    A crop is centred on a foreground voxel as far as the borders of the volume allow. Crops overlap
    only if no place without overlap was drawn. The crops of a smaller count are among those of a
    larger one. A volume that is smaller than the patch gives a smaller crop.
    """
    size = patch_in_3d(patch)
    places = _places_with_region(volumes, size, seed)
    if count > len(places):
        raise UserError(
            f"crops is {count}, but the labelled subjects show a region at {len(places)} places "
            f"for a crop of {list(patch)}: ask for fewer crops, or set a smaller patch."
        )
    chosen = _disjoint_first(places, count, size)
    return [_cut(volumes[index], corner, size) for index, corner in chosen]


def _places_with_region(
    volumes: Sequence[Volume],
    size: tuple[int, int, int],
    seed: int,
) -> list[VolumePlace]:
    """Distinct places of crops around foreground voxels, in the order in which they are drawn."""
    places = set()
    for index, volume in enumerate(volumes):
        last_corner = np.maximum(np.array(volume.x.shape[1:]) - size, 0)
        for voxels in draw_centres(volume, generator(seed, Stream.CROPS, index)):
            corners = np.clip(voxels - np.array(size) // 2, 0, last_corner)
            for x, y, z in corners.tolist():
                places.add((index, (x, y, z)))
    in_fixed_order = sorted(places)
    order = generator(seed, Stream.CROPS).permutation(len(in_fixed_order))
    return [in_fixed_order[position] for position in order]


def _disjoint_first(
    places: Sequence[VolumePlace],
    count: int,
    size: tuple[int, int, int],
) -> list[VolumePlace]:
    """The first `count` places that do not overlap; if there are too few, others follow."""
    disjoint: list[VolumePlace] = []
    overlapping: list[VolumePlace] = []
    for place in places:
        if len(disjoint) == count:
            break
        if any(_overlap(place, other, size) for other in disjoint):
            overlapping.append(place)
        else:
            disjoint.append(place)
    return [*disjoint, *overlapping][:count]


def _overlap(first: VolumePlace, second: VolumePlace, size: tuple[int, int, int]) -> bool:
    """Whether the crops at two places share a voxel."""
    if first[0] != second[0]:
        return False
    sides = zip(first[1], second[1], size, strict=True)
    return all(abs(one - other) < side for one, other, side in sides)


def _cut(volume: Volume, corner: tuple[int, int, int], size: tuple[int, int, int]) -> Volume:
    """A copy of a crop, without the rest of the volume and its label."""
    assert volume.y is not None
    box = [slice(start, start + side) for start, side in zip(corner, size, strict=True)]
    x, y, z = volume.x.shape[1:]
    return Volume(
        case=volume.case,
        x=volume.x[(slice(None), *box)].clone(),
        y=volume.y[(slice(None), *box)].clone(),
        place=Place(corner, scan_shape=(x, y, z)),
        ignored=None if volume.ignored is None else volume.ignored[(slice(None), *box)].clone(),
    )


def crop(
    x: Shaped[Tensor, "C X Y Z"],
    corner: Sequence[int],
    patch: tuple[int, ...],
) -> Shaped[Tensor, "C *space"]:
    """The patch that begins at `corner`; 2D patches drop Z.

    Where the volume is smaller, the patch is padded with 0 on both sides.
    """
    size = patch_in_3d(patch)
    box = [slice(start, start + side) for start, side in zip(corner, size, strict=True)]
    piece = x[(slice(None), *box)]
    margins: list[int] = []
    for side, piece_side in zip(size, piece.shape[1:], strict=True):
        missing = side - piece_side
        before = missing // 2
        # torch expects the margins of the last axis first.
        margins = [before, missing - before, *margins]
    return pad(piece, margins).reshape(x.shape[0], *patch)


def patch_in_3d(patch: tuple[int, ...]) -> tuple[int, int, int]:
    """The patch as a volume: a 2D patch has one slice."""
    x, y, z = (*patch, 1)[:3]
    return x, y, z
