"""Boxes exchanged between images: an image that shows a part of another, and the label to match."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from segpl.em.broadcasting import append_axes
from segpl.em.tensors import Boxes, Images, PerImage, Seeds
from segpl.foundation.draws import Purpose, uniform

THIN = 8
"""Along an axis of fewer voxels the box is as long as the image."""


class Sides(NamedTuple):
    """Limits on the side of a box, as shares of the image's side; each axis has its own draw."""

    shortest: float
    longest: float


class Mixed(NamedTuple):
    """Images that are in part an unlabelled image and in part a labelled one."""

    x: Float[Tensor, "U C *space"]
    """The mixed images."""
    y: Float[Tensor, "U K *space"]
    """Their labels: pseudo-labels in part, true labels in part."""
    is_true: Float[Tensor, "U 1 *space"]
    """1 where the label is a true one that counts."""
    is_pseudo: Float[Tensor, "U K *space"]
    """1 where it is a confident pseudo-label."""


def draw_boxes(seeds: Seeds, space: torch.Size, sides: Sides) -> Boxes:
    """One box per image, anywhere in it: 1 inside, 0 outside. Drawn from the image's own seed."""
    axes = len(space)
    drawn = uniform(seeds, 2, axes, purpose=Purpose.BOX)
    boxes = torch.ones(len(seeds), 1, *space, device=seeds.device)
    for axis, size in enumerate(space):
        if size < THIN:
            continue
        u_length = drawn[:, 0, axis]
        u_start = drawn[:, 1, axis]
        share = sides.shortest + (sides.longest - sides.shortest) * u_length
        length = (share * size).round().clamp(1, size)
        start = (u_start * (size - length + 1)).floor()
        inside = _interval(start, start + length, size)
        along_axis = [1] * axes
        along_axis[axis] = size
        boxes = boxes * inside.reshape(-1, 1, *along_axis)
    return boxes


def _interval(start: PerImage, end: PerImage, size: int) -> Float[Tensor, "B size"]:
    """1 at the voxels from `start` up to but not including `end`, 0 elsewhere on the axis."""
    voxel = torch.arange(size, device=start.device)
    is_inside = (voxel >= start[:, None]) & (voxel < end[:, None])
    return is_inside.float()


def exchange(inside: Images, outside: Images, box: Boxes) -> Images:
    """One image (or label) inside the box and another one outside it."""
    return torch.where(box > 0, inside, outside)


def invert_half(boxes: Boxes, seeds: Seeds) -> Boxes:
    """The boxes, with inside and outside swapped for a random half of the images."""
    is_inverted = uniform(seeds, 1, purpose=Purpose.DIRECTION) < 0.5
    return torch.where(append_axes(is_inverted, like=boxes), 1 - boxes, boxes)


def choose_images(seeds: Seeds, share: float, like: Tensor) -> Float[Tensor, "B *ones"]:
    """1 for a random share of the images and 0 for the others, shaped to multiply `like`."""
    is_chosen = uniform(seeds, 1, purpose=Purpose.MIXED) < share
    return append_axes(is_chosen, like=like).float()


def partner_indices(images: int, partners: int) -> Int[Tensor, " images"]:
    """The index of the partner of each image, when images are paired with partners in turn.

    Processes are dealt the images of a step in turn as well, so an image and its partner are
    always in the same process.
    """
    return torch.arange(images) % partners
