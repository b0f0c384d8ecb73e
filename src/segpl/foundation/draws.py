"""Randomness as pure functions: a number drawn for an image or a step depends on its seed alone.

Hence a run resumes exactly without saved random states, two processes draw what one would have drawn, and any step can
be replayed alone.
"""

from enum import IntEnum

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor


class Stream(IntEnum):
    """What randomness is for: what one purpose draws never moves what another draws."""

    SPLIT = 0
    LABELLED_TURN = 1
    LABELLED_CROP = 2
    UNLABELLED_TURN = 3
    UNLABELLED_CROP = 4
    METHOD = 5
    TORCH = 6
    SHIFT = 7
    VIEW = 8
    SLICES = 9
    FOREGROUND = 10
    PARTNER_TURN = 11
    PARTNER_CROP = 12
    PARTNER_VIEW = 13
    UNLABELLED_VIEW = 14


class Purpose(IntEnum):
    """What a number is drawn for: an image has one seed a step, and each purpose its own numbers from it."""

    THRESHOLD = 0
    VIEW = 1
    VIEW_NOISE = 2
    WEAK_NOISE = 3
    OTHER_NOISE = 4
    FEATURE_NOISE = 5
    FEATURE_DROPOUT = 6
    PUZZLE = 7
    VIEW_DIRECTION = 8
    OPERATIONS = 9
    MIRROR = 10
    WARP = 11
    BOX = 12
    MIXED = 13
    DIRECTION = 14


def generator(*key: int) -> np.random.Generator:
    """The generator that belongs to a key such as (seed, purpose, step)."""
    return np.random.default_rng(key)


def seeds(*key: int, count: int) -> Int[Tensor, " count"]:
    """`count` seeds, one for each image of the step that the key names."""
    return torch.from_numpy(generator(*key).integers(2**62, size=count))


def uniform(seeds: Int[Tensor, " B"], *shape: int, purpose: Purpose) -> Float[Tensor, "B *shape"]:
    """Uniform numbers in [0, 1), of one shape for each image, from the image's own seed."""
    return _stack(
        [generator(int(seed), purpose).random(shape, np.float32) for seed in seeds], seeds, shape
    )


def normal(seeds: Int[Tensor, " B"], *shape: int, purpose: Purpose) -> Float[Tensor, "B *shape"]:
    """Standard normal numbers, of one shape for each image, from the image's own seed."""
    rows = [generator(int(seed), purpose).standard_normal(shape, np.float32) for seed in seeds]
    return _stack(rows, seeds, shape)


def _stack(rows: list[np.ndarray], seeds: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(np.stack(rows) if rows else np.empty((0, *shape), np.float32)).to(
        seeds.device
    )
