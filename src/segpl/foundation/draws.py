"""Randomness as pure functions: what is drawn for an image or a step depends on its seed alone.

So a run resumes exactly without saved random states, two processes draw what one process would
have drawn, and any step can be replayed alone.
"""

from enum import IntEnum

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor


class Stream(IntEnum):
    """Independent sequences of random numbers of a run: drawing from one never changes another."""

    SPLIT = 0
    LABELLED_ORDER = 1
    LABELLED_CROP = 2
    UNLABELLED_ORDER = 3
    UNLABELLED_CROP = 4
    METHOD = 5
    TORCH = 6
    SHIFT = 7
    VIEW = 8
    SLICES = 9
    FOREGROUND = 10
    PARTNER_ORDER = 11
    PARTNER_CROP = 12
    PARTNER_VIEW = 13
    UNLABELLED_VIEW = 14
    BATCHES = 15
    CROPS = 16
    UNLABELLED_SUBJECTS = 17


class Purpose(IntEnum):
    """What a number is drawn for.

    An image has one seed in each step; every purpose gets its own numbers from that seed.
    """

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
    """The generator that belongs to a key such as (seed, stream, step)."""
    return np.random.default_rng(key)


def seeds(*key: int, count: int) -> Int[Tensor, " count"]:
    """`count` seeds, one for each image of the step that the key names."""
    drawn = generator(*key).integers(2**62, size=count)
    return torch.from_numpy(drawn)


def uniform(seeds: Int[Tensor, " B"], *shape: int, purpose: Purpose) -> Float[Tensor, "B *shape"]:
    """Uniform numbers in [0, 1), an array of `shape` for each image, from the image's own seed."""
    rows = []
    for seed in seeds:
        draw = generator(int(seed), purpose)
        rows.append(draw.random(shape, np.float32))
    return _stack(rows, shape).to(seeds.device)


def normal(seeds: Int[Tensor, " B"], *shape: int, purpose: Purpose) -> Float[Tensor, "B *shape"]:
    """Standard normal numbers, an array of `shape` for each image, from the image's own seed."""
    rows = []
    for seed in seeds:
        draw = generator(int(seed), purpose)
        rows.append(draw.standard_normal(shape, np.float32))
    return _stack(rows, shape).to(seeds.device)


def _stack(rows: list[np.ndarray], shape: tuple[int, ...]) -> Tensor:
    """The rows as one tensor; np.stack refuses an empty list, so no row is a case of its own."""
    if not rows:
        return torch.empty(0, *shape, dtype=torch.float32)
    return torch.from_numpy(np.stack(rows))
