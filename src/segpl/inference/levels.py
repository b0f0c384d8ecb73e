"""Probabilities as 16-bit levels, in steps of 1/65535.

They take half the memory of floats, stay on the same side of 1/2, and can be counted.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt16
from torch import Tensor
from torch.nn.functional import interpolate

from segpl.inference.windows import SLAB
from segpl.metrics.entropy import entropy

LevelVolume = UInt16[np.ndarray, "X Y Z"]
LevelMaps = UInt16[np.ndarray, "M X Y Z"]
"""M volumes, such as one per region."""

FULL = 65535
"""The level of probability 1."""
HALF = FULL // 2
"""A probability exceeds 1/2 exactly where its level exceeds this."""
PROBABILITY = np.arange(FULL + 1, dtype=np.float64) / FULL
"""The probability of each level."""
ENTROPY = entropy(PROBABILITY)
"""The entropy of each level, in bits."""


def to_levels(p: Float[Tensor, "*shape"]) -> UInt16[np.ndarray, "*shape"]:
    """The nearest levels. A tie goes to the lower one, so that 1/2 stays outside the mask."""
    scaled = p * FULL
    rounded = (scaled - 0.5).ceil()
    clamped = rounded.clamp(0, FULL)
    return clamped.int().numpy().astype(np.uint16)


def to_probabilities(levels: UInt16[np.ndarray, "*shape"]) -> Float[Tensor, "*shape"]:
    """The probabilities of levels, as 32-bit floats."""
    floats = levels.astype(np.float32)
    return torch.from_numpy(floats) / FULL


def empty_levels(maps: int, shape: Sequence[int]) -> LevelMaps:
    """Uninitialised levels, stored with X changing fastest: each plane is one piece of memory."""
    x, y, z = shape
    stored = np.empty((maps, z, y, x), dtype=np.uint16)
    return stored.transpose(0, 3, 2, 1)


def z_slabs(shape: Sequence[int]) -> Iterator[slice]:
    """Yield the planes of a volume, slab by slab along Z."""
    width, height, planes = shape
    depth = max(1, SLAB // (width * height))
    for start in range(0, planes, depth):
        end = min(start + depth, planes)
        yield slice(start, end)


def resample_levels(
    levels: LevelMaps,
    shape: tuple[int, ...],
) -> UInt16[np.ndarray, "M x y z"]:
    """What `segpl.data.preparation.resample` does, with one slab of floats at a time."""
    old_shape = levels.shape[1:]
    if old_shape == tuple(shape):
        return levels
    shares = _plane_shares(old_shape[2], shape[2])
    # Shrunken axes are averaged first; then all are interpolated to the new size.
    averaged_size = [min(shape[0], old_shape[0]), min(shape[1], old_shape[1])]
    resampled = empty_levels(len(levels), shape)
    for new_planes in z_slabs(shape):
        planes = _mix_planes(levels, shares[:, new_planes])
        planes = interpolate(planes, size=averaged_size, mode="area")
        planes = interpolate(planes, size=shape[:2], mode="bilinear")
        resampled[..., new_planes] = to_levels(planes.permute(1, 2, 3, 0))
    return resampled


def _mix_planes(levels: LevelMaps, shares: Float[Tensor, "Z z"]) -> Float[Tensor, "z M X Y"]:
    """New planes as sums of old ones; only the old planes that are needed become floats."""
    used = shares.any(1).nonzero()
    old_planes = slice(int(used[0]), int(used[-1]) + 1)
    p = to_probabilities(levels[..., old_planes])
    mixed = p @ shares[old_planes]
    return mixed.permute(3, 0, 1, 2)


def _plane_shares(old_planes: int, new_planes: int) -> Float[Tensor, "Z z"]:
    """The share of each old plane in each new one: a mean where there are fewer, else linear."""
    mode = "area" if new_planes < old_planes else "linear"
    identity = torch.eye(old_planes)[None]
    return interpolate(identity, size=new_planes, mode=mode)[0]


def count_levels(levels: UInt16[np.ndarray, "*shape"]) -> Int64[np.ndarray, " 65536"]:
    """The number of voxels at each level."""
    return np.bincount(levels.ravel(), minlength=FULL + 1)
