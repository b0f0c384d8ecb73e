"""What is in step s: which images, which crops. A pure function of the seed and s."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from segpl.data.preparation import Volume
from segpl.em.types import Batch
from segpl.foundation.draws import Stream, generator, seeds
from segpl.foundation.errors import UserError

REMEMBERED = 2000
"""Foreground voxels of a volume and region that patches are centred on."""


@dataclass(frozen=True)
class Steps(TorchDataset[Batch]):
    """`steps[s]` is the batch of step s: `batch` labelled patches and `batch * ratio` unlabelled ones."""

    labelled: Sequence[Volume]
    unlabelled: Sequence[Volume]
    seed: int
    patch: tuple[int, ...]
    batch: int
    ratio: int
    foreground: float
    process: int = 0
    processes: int = 1
    """Several processes deal the images of a step out among themselves, each kind in turn."""
    found: dict[int, Sequence[np.ndarray]] = field(default_factory=dict, compare=False, repr=False)
    """Foreground voxels by labelled volume, as far as they have been looked for."""

    def __getitem__(self, step: int) -> Batch:
        unlabelled = self.batch * self.ratio if self.unlabelled else 0
        drawn = seeds(self.seed, Stream.METHOD, step, count=self.batch + unlabelled)
        mine = slice(self.process, None, self.processes)
        x_l, y_l = self._labelled(step, mine, Stream.LABELLED_TURN, Stream.LABELLED_CROP)
        x_p, y_p = self._labelled(step, mine, Stream.PARTNER_TURN, Stream.PARTNER_CROP)
        x_u = [self._unlabelled_patch(step * unlabelled + slot) for slot in range(unlabelled)[mine]]
        return Batch(
            x_l=x_l,
            y_l=y_l,
            x_p=x_p,
            y_p=y_p,
            x_u=torch.stack(x_u) if x_u else x_l.new_empty(0, *x_l.shape[1:]),
            seeds_l=drawn[: self.batch][mine],
            seeds_u=drawn[self.batch :][mine],
        )

    def _labelled(
        self, step: int, mine: slice, turns: Stream, crops: Stream
    ) -> tuple[Float[Tensor, "L C *space"], Float[Tensor, "L K *space"]]:
        """The labelled patches of a step, and their labels."""
        images = []
        labels = []
        for slot in range(self.batch)[mine]:
            index = step * self.batch + slot
            which = turn(self.seed, turns, index, len(self.labelled))
            volume = self.labelled[which]
            assert volume.y is not None
            corner = self._corner(
                volume, generator(self.seed, crops, index), self._foreground(which)
            )
            images.append(crop(volume.x, corner, self.patch))
            labels.append(crop(volume.y, corner, self.patch).float())
        return torch.stack(images), torch.stack(labels)

    def _unlabelled_patch(self, index: int) -> Float[Tensor, "C *space"]:
        """A patch of an unlabelled volume, placed as the labelled ones are.

        Where its foreground is nobody knows, but scans of one protocol are alike: the patch is
        centred where a labelled volume, stretched to this one's shape, has foreground.
        """
        volume = self.unlabelled[
            turn(self.seed, Stream.UNLABELLED_TURN, index, len(self.unlabelled))
        ]
        draw = generator(self.seed, Stream.UNLABELLED_CROP, index)
        which = int(draw.integers(len(self.labelled)))
        stretch = np.array(volume.x.shape[1:]) / self.labelled[which].x.shape[1:]
        foreground = [(voxels + 0.5) * stretch for voxels in self._foreground(which)]
        corner = self._corner(volume, draw, foreground)
        return crop(volume.x, corner, self.patch)

    def _corner(
        self, volume: Volume, draw: np.random.Generator, foreground: Sequence[np.ndarray]
    ) -> list[int]:
        """Where the patch begins: anywhere or, in a share of the patches, centred on a foreground voxel."""
        size = np.array((*self.patch, 1)[:3])
        room = np.maximum(np.array(volume.x.shape[1:]) - size, 0)
        anywhere = draw.integers(room + 1)
        if not foreground or draw.uniform() >= self.foreground:
            return anywhere.tolist()
        region = foreground[int(draw.integers(len(foreground)))]
        centre = region[draw.integers(len(region))].astype(int)
        return np.clip(centre - size // 2, 0, room).tolist()

    def _foreground(self, which: int) -> Sequence[np.ndarray]:
        """Foreground voxels of a labelled volume, region by region, so that a small region is not forgotten.

        Looked for at the first visit; some of them are enough, and all of thousands of volumes would fill the memory.
        """
        if which not in self.found:
            y = self.labelled[which].y
            assert y is not None
            draw = generator(self.seed, Stream.FOREGROUND, which)
            places = [np.argwhere(region.numpy()).astype(np.int32) for region in y if region.any()]
            self.found[which] = [
                each if len(each) <= REMEMBERED else draw.choice(each, REMEMBERED, replace=False)
                for each in places
            ]
        return self.found[which]


def keep_slices(volumes: Sequence[Volume], count: int, seed: int) -> list[Volume]:
    """`count` slices that show a region, drawn over all volumes; a smaller count is the head of a larger one."""
    shown = [
        (number, int(place))
        for number, volume in enumerate(volumes)
        if volume.y is not None
        for place in volume.y.flatten(0, 2).any(0).nonzero()
    ]
    if count > len(shown):
        raise UserError(
            f"the labelled subjects have {len(shown)} slices that show a region: ask for no more slices."
        )
    chosen = sorted(
        shown[place] for place in generator(seed, Stream.SLICES).permutation(len(shown))[:count]
    )
    places = [[place for number, place in chosen if number == mine] for mine in range(len(volumes))]
    return [
        Volume(volume.case, volume.x[..., kept], volume.y[..., kept])
        for volume, kept in zip(volumes, places, strict=True)
        if kept and volume.y is not None
    ]


def turn(seed: int, stream: Stream, index: int, count: int) -> int:
    """Whose turn it is at place `index` of an endless walk that visits all `count` volumes before any comes again."""
    lap, place = divmod(index, count)
    return int(_order(seed, stream, lap, count)[place])


@lru_cache(maxsize=8)
def _order(seed: int, stream: Stream, lap: int, count: int) -> np.ndarray:
    return generator(seed, stream, lap).permutation(count)


def crop(
    x: Shaped[Tensor, "C X Y Z"], corner: Sequence[int], patch: tuple[int, ...]
) -> Shaped[Tensor, "C *space"]:
    """The patch that begins at `corner`, filled up with background where the volume is smaller; 2D patches drop Z."""
    size = (*patch, 1)[:3]
    piece = x[(slice(None), *(slice(c, c + n) for c, n in zip(corner, size, strict=True)))]
    missing = [n - have for n, have in zip(size, piece.shape[1:], strict=True)]
    margins = [side for gap in reversed(missing) for side in (gap // 2, gap - gap // 2)]
    return torch.nn.functional.pad(piece, margins).reshape(x.shape[0], *patch)
