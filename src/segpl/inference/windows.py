"""Whole volumes from a network that sees patches, and one label map from the masks of all regions."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Integer
from monai.data.utils import compute_importance_map
from monai.inferers import sliding_window_inference
from torch import Tensor

from segpl.data.cases import Region

Predict = Callable[[Float[Tensor, "B C *space"]], Float[Tensor, "S B K *space"]]
Window = Callable[[Float[Tensor, "B C *space"]], Float[Tensor, "B M *space"]]

BATCH = {"cpu": 4, "cuda": 16}
"""Windows that a network sees at once: a processor is as fast with two as with eight, a GPU wants more to do."""
SLAB = 2**22
"""Voxels of a slab, unless a single window is deeper."""


def slabs(
    shape: Sequence[int], patch: tuple[int, ...], overlap: float = 0.25, voxels: int = SLAB
) -> list[tuple[int, ...]]:
    """The windows of a volume, row by row along Z: for each slab the planes that its windows begin at."""
    depth = (*patch, 1)[2]
    step, last = _step(depth, overlap), max(0, shape[2] - depth)
    starts = [*range(0, last, step), last]
    rows = max(1, (voxels // (shape[0] * shape[1]) - depth) // step + 1)
    return [tuple(starts[first : first + rows]) for first in range(0, len(starts), rows)]


def predict_slabs(
    window: Window,
    x: Float[Tensor, "C X Y Z"],
    patch: tuple[int, ...],
    rows: Sequence[tuple[int, ...]],
    overlap: float = 0.25,
    device: torch.device | None = None,
) -> Iterator[Float[Tensor, "M X Y z"]]:
    """What a network finds in a volume, as a stream of finished slabs along Z that need not be held together.

    The windows overlap and are blended by a Gaussian; 2D networks go slice by slice.

    MONAI divides by the sum of the weights, after which slabs could not be added up. Hence it averages here, and the
    weights travel with the weighted values as one more channel; how many windows a plane was averaged over is known.
    Memory: 4 (M + C + 12) bytes for each voxel of a slab, measured with what a consumer does to it in between.
    """
    size, overlaps = (*patch, 1)[:3], (overlap, overlap, overlap if len(patch) == 3 else 0.0)
    weight = compute_importance_map(size, mode="gaussian", device=device or x.device)

    def weighted(piece: Tensor) -> Tensor:
        flat = len(patch) == 2
        values = (
            window(piece[..., 0])[..., None] if flat else window(_in_company(piece))[: len(piece)]
        )
        return torch.cat([values * weight, weight.expand(len(values), 1, *size)], dim=1)

    shared: Tensor | None = None
    for row, following in zip(rows, [*rows[1:], ()], strict=True):
        begin, end = row[0], row[-1] + size[2]
        slab = x[None, ..., begin:end].contiguous()
        count = _at_once(device or x.device)
        mean = sliding_window_inference(
            slab, size, count, weighted, overlaps, sw_device=device, device="cpu"
        )[0]
        places = torch.arange(begin, begin + mean.shape[3])
        total = mean.mul_(sum((places >= start) & (places < start + size[2]) for start in row))
        if shared is not None:
            total[..., : shared.shape[3]] += shared
        done = following[0] - begin if following else mean.shape[3]
        shared = total[..., done:].clone()
        yield total[:-1, ..., :done].div_(total[-1, ..., :done])


def predict_volume(
    window: Window, x: Float[Tensor, "C X Y Z"], patch: tuple[int, ...], overlap: float = 0.25
) -> Float[Tensor, "M X Y Z"]:
    """The slabs of a whole volume, put together."""
    rows = slabs(x.shape[1:], patch, overlap)
    return torch.cat(list(predict_slabs(window, x, patch, rows, overlap)), dim=3)


def fold(
    found: Bool[Tensor, "K *space"], regions: Sequence[Region]
) -> Integer[np.ndarray, "*space"]:
    """One label map in the values of the training data: a later region covers an earlier one."""
    kinds = [np.min_scalar_type(region.paint) for region in regions]  # a value may be negative
    label = np.zeros(found.shape[1:], dtype=np.result_type(*kinds))
    for region, part in zip(regions, found.numpy(), strict=True):
        label[part] = region.paint
    return label


def _in_company(piece: Float[Tensor, "B C *space"]) -> Float[Tensor, "A C *space"]:
    """A lonely volume twice: for a batch of one, torch leaves its fast 3D convolution and takes ten times as long."""
    lonely = len(piece) == 1 and piece.ndim == 5 and piece.device.type == "cpu"
    return piece.expand(2, *piece.shape[1:]) if lonely else piece


def _at_once(device: torch.device) -> int:
    return BATCH.get(device.type, BATCH["cpu"])


def _step(size: int, overlap: float) -> int:
    """How far windows lie apart, as MONAI has it."""
    return max(1, int(size * (1 - overlap)))
