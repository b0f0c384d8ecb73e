"""Maps of whole volumes from a network that sees patches: overlapping windows, blended."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from monai.data.utils import compute_importance_map
from monai.inferers import sliding_window_inference
from torch import Tensor

from segpl.em.tensors import Images, Samples

Volume = Float[Tensor, "C X Y Z"]
"""One image of C channels."""
Windows = Float[Tensor, "B C X Y Z"]
Predict = Callable[[Images], Samples]
"""Maps a batch of images to S samples for K regions, which masks are made of."""
Window = Callable[[Images], Float[Tensor, "B M *space"]]
"""Maps a batch of windows to M maps of the same size."""

BATCH = {"cpu": 4, "cuda": 16}
"""Windows per forward pass. A CPU is as fast with two as with eight; a GPU needs more work."""
SLAB = 2**22
"""Voxels of a slab, unless a single window is deeper."""


def slabs(
    shape: Sequence[int],
    patch: tuple[int, ...],
    overlap: float = 0.25,
    voxels: int = SLAB,
) -> list[tuple[int, ...]]:
    """The windows of a volume, grouped into slabs along Z of about `voxels` voxels.

    Each slab is a tuple of the planes at which its windows start.
    """
    depth = _window_size(patch)[2]
    step = max(1, int(depth * (1 - overlap)))  # as MONAI computes it
    last_start = max(0, shape[2] - depth)
    starts = [*range(0, last_start, step), last_start]
    planes_per_slab = voxels // (shape[0] * shape[1])
    starts_per_slab = max(1, (planes_per_slab - depth) // step + 1)
    rows = []
    for first in range(0, len(starts), starts_per_slab):
        row = starts[first : first + starts_per_slab]
        rows.append(tuple(row))
    return rows


def predict_slabs(
    window: Window,
    x: Volume,
    patch: tuple[int, ...],
    rows: Sequence[tuple[int, ...]],
    overlap: float = 0.25,
    device: torch.device | None = None,
) -> Iterator[Float[Tensor, "M X Y z"]]:
    """Yield the maps of a volume as finished slabs along Z, one for each of `rows` (see `slabs`).

    The windows overlap and are blended with Gaussian weights; 2D networks go slice by slice.
    Memory: 4 (M + C + 12) bytes per voxel of a slab, including what a consumer does with the slab.
    """
    device = device or x.device
    weight = compute_importance_map(_window_size(patch), mode="gaussian", device=device)
    weighted_sums = _WeightedSums(window, weight, is_3d=len(patch) == 3, overlap=overlap)
    carried: Tensor | None = None
    for row, next_row in zip(rows, [*rows[1:], ()], strict=True):
        total = weighted_sums.of_row(x, row)
        if carried is not None:
            total[..., : carried.shape[3]] += carried
        finished = total.shape[3]
        if next_row:
            finished = next_row[0] - row[0]
        # The windows of the next row still add to the planes after `finished`.
        carried = total[..., finished:].clone()
        weighted_maps = total[:-1, ..., :finished]
        weights = total[-1, ..., :finished]
        yield weighted_maps.div_(weights)


def predict_volume(
    window: Window,
    x: Volume,
    patch: tuple[int, ...],
    overlap: float = 0.25,
) -> Float[Tensor, "M X Y Z"]:
    """The maps of a whole volume: all its slabs, concatenated."""
    rows = slabs(x.shape[1:], patch, overlap)
    finished_slabs = list(predict_slabs(window, x, patch, rows, overlap))
    return torch.cat(finished_slabs, dim=3)


@dataclass(frozen=True, eq=False)
class _WeightedSums:
    """Sums of weighted maps and of the weights themselves, over rows of windows.

    MONAI divides by the sum of the weights, but slabs can only be added before that division.
    Hence MONAI computes plain means here: the weights are part of the maps, and a last channel
    carries the weights. The number of windows over each plane turns the means back into sums.
    """

    window: Window
    weight: Float[Tensor, "X Y Z"]
    """The Gaussian weights of a window, on the device of the network."""
    is_3d: bool
    overlap: float

    def of_row(self, x: Volume, row: Sequence[int]) -> Float[Tensor, "N X Y z"]:
        """The sums over the windows that start at the planes of `row`; N is M maps + 1."""
        size = tuple(self.weight.shape)
        start = row[0]
        end = row[-1] + size[2]
        overlap_in_z = self.overlap if self.is_3d else 0.0
        device = self.weight.device
        means = sliding_window_inference(
            x[None, ..., start:end].contiguous(),
            size,
            sw_batch_size=BATCH.get(device.type, BATCH["cpu"]),
            predictor=self._weighted_maps,
            overlap=(self.overlap, self.overlap, overlap_in_z),
            sw_device=device,
            device="cpu",
        )[0]
        windows_per_plane = _windows_per_plane(row, size[2], planes=means.shape[3])
        return means.mul_(windows_per_plane)

    def _weighted_maps(self, windows: Windows) -> Float[Tensor, "B N X Y Z"]:
        """The maps times the weights, and the weights as one more map."""
        maps = self._maps(windows)
        weight_channel = self.weight.expand(len(maps), 1, *self.weight.shape)
        return torch.cat([maps * self.weight, weight_channel], dim=1)

    def _maps(self, windows: Windows) -> Float[Tensor, "B M X Y Z"]:
        if self.is_3d:
            maps = self.window(_avoid_batch_of_one(windows))
            return maps[: len(windows)]
        planes = windows[..., 0]
        return self.window(planes)[..., None]


def _windows_per_plane(row: Sequence[int], depth: int, planes: int) -> Int64[Tensor, " planes"]:
    """How many of the row's windows along Z cover each plane, from the first window's start on."""
    first = row[0]
    z = torch.arange(first, first + planes)
    count = torch.zeros(planes, dtype=torch.int64)
    for start in row:
        end = start + depth
        count += (z >= start) & (z < end)
    return count


def _avoid_batch_of_one(windows: Windows) -> Float[Tensor, "A C X Y Z"]:
    """The windows; a single one on the CPU comes twice."""
    # torch's 3D convolution on the CPU is 10 times slower for a batch of one.
    if len(windows) == 1 and windows.device.type == "cpu":
        return windows.expand(2, *windows.shape[1:])
    return windows


def _window_size(patch: tuple[int, ...]) -> tuple[int, ...]:
    """The patch in three dimensions: a 2D patch is one plane deep."""
    return (*patch, 1)[:3]
