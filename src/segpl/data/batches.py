"""What is in step s: which images, which crops. A pure function of the seed and s."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from segpl.data.loading import Volume
from segpl.draws import Stream, generator, seeds
from segpl.errors import UserError
from segpl.types import Batch

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
        mine = slice(self.process, None, self.processes)
        wanted = self.batch * self.ratio if self.unlabelled else 0
        pairs = [self._labelled_patch(step * self.batch + slot) for slot in range(self.batch)[mine]]
        x_u = [self._unlabelled_patch(step * wanted + slot) for slot in range(wanted)[mine]]
        x_l = torch.stack([x for x, _ in pairs])
        drawn = seeds(self.seed, Stream.METHOD, step, count=self.batch + wanted)
        return Batch(
            x_l=x_l,
            y_l=torch.stack([y for _, y in pairs]),
            x_u=torch.stack(x_u) if x_u else x_l.new_empty(0, *x_l.shape[1:]),
            seeds_l=drawn[: self.batch][mine],
            seeds_u=drawn[self.batch :][mine],
        )

    def _labelled_patch(self, index: int) -> tuple[Float[Tensor, "C *space"], Float[Tensor, "K *space"]]:
        which = turn(self.seed, Stream.LABELLED_TURN, index, len(self.labelled))
        volume, draw = self.labelled[which], generator(self.seed, Stream.LABELLED_CROP, index)
        corner = self._corner(volume, draw, self._foreground(which))
        assert volume.y is not None
        return crop(volume.x, corner, self.patch), crop(volume.y, corner, self.patch).float()

    def _unlabelled_patch(self, index: int) -> Float[Tensor, "C *space"]:
        volume = self.unlabelled[turn(self.seed, Stream.UNLABELLED_TURN, index, len(self.unlabelled))]
        return crop(volume.x, self._corner(volume, generator(self.seed, Stream.UNLABELLED_CROP, index)), self.patch)

    def _corner(self, volume: Volume, draw: np.random.Generator, foreground: Sequence[np.ndarray] = ()) -> list[int]:
        """Where the patch begins: anywhere or, in a share of the labelled patches, centred on a foreground voxel."""
        size = (*self.patch, 1)[:3]
        room = np.maximum(np.array(volume.x.shape[1:]) - size, 0)
        anywhere = draw.integers(room + 1)
        if not foreground or draw.uniform() >= self.foreground:
            return anywhere.tolist()
        voxels = foreground[int(draw.integers(len(foreground)))]
        return np.clip(voxels[draw.integers(len(voxels))] - np.array(size) // 2, 0, room).tolist()

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
                each if len(each) <= REMEMBERED else draw.choice(each, REMEMBERED, replace=False) for each in places
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
        raise UserError(f"the labelled subjects have {len(shown)} slices that show a region: ask for no more slices.")
    chosen = sorted(shown[place] for place in generator(seed, Stream.SLICES).permutation(len(shown))[:count])
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


def crop(x: Shaped[Tensor, "C X Y Z"], corner: Sequence[int], patch: tuple[int, ...]) -> Shaped[Tensor, "C *space"]:
    """The patch that begins at `corner`, filled up with background where the volume is smaller; 2D patches drop Z."""
    size = (*patch, 1)[:3]
    piece = x[(slice(None), *(slice(c, c + n) for c, n in zip(corner, size, strict=True)))]
    missing = [n - have for n, have in zip(size, piece.shape[1:], strict=True)]
    margins = [side for gap in reversed(missing) for side in (gap // 2, gap - gap // 2)]
    return torch.nn.functional.pad(piece, margins).reshape(x.shape[0], *patch)
