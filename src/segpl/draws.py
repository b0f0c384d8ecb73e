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


def generator(*key: int) -> np.random.Generator:
    """The generator that belongs to a key such as (seed, purpose, step)."""
    return np.random.default_rng(key)


def seeds(*key: int, count: int) -> Int[Tensor, " count"]:
    """`count` seeds, one for each image of the step that the key names."""
    return torch.from_numpy(generator(*key).integers(2**62, size=count))


def uniform(seeds: Int[Tensor, " B"], size: int) -> Float[Tensor, "B {size}"]:
    """`size` uniform numbers in (0, 1) an image, from the image's own seed."""
    rows = [generator(int(seed)).uniform(size=size) for seed in seeds]
    return torch.from_numpy(np.stack(rows).astype(np.float32)).to(seeds.device)
