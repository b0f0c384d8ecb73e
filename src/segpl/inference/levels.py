"""Probabilities as whole numbers of 1/65535: half the size of floats, on the same side of 1/2, and easy to count."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt16
from torch import Tensor
from torch.nn.functional import interpolate

from segpl.inference.windows import SLAB
from segpl.metrics.entropy import entropy

FULL = 65535
HALF = FULL // 2
"""A probability exceeds 1/2 where its level exceeds this."""
PROBABILITY = np.arange(FULL + 1, dtype=np.float64) / FULL
"""The probability of each level."""
ENTROPY = entropy(PROBABILITY)
"""Its entropy in bits."""


def packed(p: Float[Tensor, "*shape"]) -> UInt16[np.ndarray, "*shape"]:
    """The nearest level; the lower one of two that are equally near, so that 1/2 stays outside the mask."""
    return (p * FULL - 0.5).ceil().clamp(0, FULL).int().numpy().astype(np.uint16)


def unpacked(levels: UInt16[np.ndarray, "*shape"]) -> Float[Tensor, "*shape"]:
    """Probabilities again."""
    return torch.from_numpy(levels.astype(np.float32)) / FULL


def parts(shape: Sequence[int]) -> Iterator[slice]:
    """The planes of a volume, slab by slab along Z."""
    depth = max(1, SLAB // int(np.prod(shape[:2])))
    return (slice(start, min(start + depth, shape[2])) for start in range(0, shape[2], depth))


def resampled(
    levels: UInt16[np.ndarray, "M X Y Z"], shape: tuple[int, ...]
) -> UInt16[np.ndarray, "M x y z"]:
    """What `segpl.data.preparation.resample` does, with one slab of floats at a time."""
    before = levels.shape[1:]
    if before == tuple(shape):
        return levels
    smaller = [min(sizes) for sizes in zip(shape, before, strict=True)]
    line = "area" if shape[2] < before[2] else "linear"
    shares = interpolate(torch.eye(before[2])[None], size=shape[2], mode=line)[
        0
    ]  # of old planes in new ones
    result = np.empty((len(levels), *shape[::-1]), dtype=np.uint16).transpose(0, 3, 2, 1)
    for part in parts(shape):
        used = shares[:, part].any(1).nonzero()
        old = slice(int(used[0]), int(used[-1]) + 1)
        slab = (unpacked(levels[..., old]) @ shares[old, part]).permute(3, 0, 1, 2)
        slab = interpolate(slab, size=smaller[:2], mode="area")
        result[..., part] = packed(
            interpolate(slab, size=shape[:2], mode="bilinear").permute(1, 2, 3, 0)
        )
    return result


def counted(levels: UInt16[np.ndarray, "*shape"]) -> Int64[np.ndarray, " 65536"]:
    """How many voxels there are of each level."""
    return np.bincount(levels.ravel(), minlength=FULL + 1)
