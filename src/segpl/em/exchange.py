"""Boxes exchanged between images: an image that shows a part of another, with both of their labels."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from segpl.foundation.draws import Purpose, uniform

THIN = 8
"""An axis of fewer voxels is not cut: the box goes through all of its slices."""


class Sides(NamedTuple):
    """How long a box is, as a share of the image's side: drawn evenly between the two for each axis."""

    shortest: float
    longest: float


def draw_boxes(
    seeds: Int[Tensor, " B"], space: torch.Size, sides: Sides
) -> Float[Tensor, "B 1 *space"]:
    """A box per image from the image's own seed: 1 inside, 0 outside. It lies anywhere in the image."""
    drawn = uniform(seeds, 2, len(space), purpose=Purpose.BOX)
    boxes = torch.ones(len(seeds), 1, *space, device=seeds.device)
    for axis, n in enumerate(space):
        if n < THIN:
            continue
        share = sides.shortest + (sides.longest - sides.shortest) * drawn[:, 0, axis]
        length = (share * n).round().clamp(1, n)
        start = (drawn[:, 1, axis] * (n - length + 1)).floor()
        inside = _between(start, start + length, n)
        boxes = boxes * inside.reshape(
            -1, 1, *[n if other == axis else 1 for other in range(len(space))]
        )
    return boxes


def _between(start: Float[Tensor, " B"], end: Float[Tensor, " B"], n: int) -> Float[Tensor, "B n"]:
    """1 at the places from `start` up to `end`, of n places."""
    places = torch.arange(n, device=start.device)
    return ((places >= start[:, None]) & (places < end[:, None])).float()


def exchange(
    inside: Float[Tensor, "B C *space"],
    outside: Float[Tensor, "B C *space"],
    box: Float[Tensor, "B 1 *space"],
) -> Float[Tensor, "B C *space"]:
    """One image, or label, inside the box and another outside."""
    return torch.where(box > 0, inside, outside)


def one_way_or_other(
    boxes: Float[Tensor, "B 1 *space"], seeds: Int[Tensor, " B"]
) -> Float[Tensor, "B 1 *space"]:
    """The box for half of the images, all but the box for the other half."""
    inverted = uniform(seeds, 1, purpose=Purpose.DIRECTION) < 0.5
    return torch.where(_column(inverted, boxes), 1 - boxes, boxes)


def some_images(seeds: Int[Tensor, " B"], share: float, like: Tensor) -> Float[Tensor, "B *ones"]:
    """1 for a share of the images and 0 for the others, shaped so that it multiplies tensors `like` this."""
    chosen = uniform(seeds, 1, purpose=Purpose.MIXED) < share
    return _column(chosen, like).float()


def _column(values: Shaped[Tensor, "B 1"], like: Tensor) -> Shaped[Tensor, "B *ones"]:
    return values.reshape(-1, *[1] * (like.ndim - 1))


def partners(count: int, of: int) -> Int[Tensor, " count"]:
    """With whom each of `count` images is paired among `of` others, in turn.

    Processes are dealt the images of a step in turn as well, so partners always meet in one process.
    """
    return torch.arange(count) % of
