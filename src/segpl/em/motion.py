"""Geometric changes of an image: rotated, scaled, shifted, elastically deformed, mirrored."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, interpolate

from segpl.foundation.draws import Purpose, uniform

CONTROL_POINTS = 4
"""Of the elastic deformation, along each axis."""
THIN = 0.25
"""An axis shorter than this share of the longest is thin: slices are neither shifted nor deformed."""
DEEP = 0.5
"""A volume at least this deep, as a share of its width, is tilted out of its plane as well."""


@dataclass(frozen=True)
class Motion:
    """Where each image of a batch is seen from. Angles in radians, lengths as shares of half a side."""

    rotation: Float[Tensor, " B"]
    """In the plane of the first two axes."""
    tilt: Float[Tensor, "B 2"]
    """Out of that plane, about its first and second axis."""
    scale: Float[Tensor, " B"]
    """Above 1, objects in the plane grow."""
    shift: Float[Tensor, "B 3"]
    warp: Float[Tensor, " B"]
    """The largest displacement of the elastic deformation."""
    sign: Float[Tensor, "B 3"]
    """-1 along the axes that are mirrored, 1 along the others."""
    seeds: Int[Tensor, " B"]
    """The displacements of the deformation are drawn from these."""

    def apply(self, x: Float[Tensor, "B C *space"], mode: str) -> Float[Tensor, "B C *space"]:
        """The moved images; `mode` is bilinear for grey values and nearest for labels.

        What a rotation brings in from outside is a reflection, of image and label alike: a constant
        border would be learnt as background.
        """
        space = x.shape[2:]
        with torch.autocast(x.device.type, enabled=False):  # half precision is off by half a voxel
            grid = affine_grid(self._matrix(space), list(x.shape), align_corners=False)
            grid = grid + self._displacement(space)
        return grid_sample(x, grid, mode=mode, padding_mode="reflection", align_corners=False)

    def _matrix(self, space: torch.Size) -> Float[Tensor, "B D D+1"]:
        """For each voxel of the view, where it comes from, as torch wants it.

        torch counts coordinates from the last axis, and each from -1 to 1. Rotations are made in
        voxels and only then brought to these units, so that oblong images are not sheared.
        """
        axes = len(space)
        rotation = _rotation(self.rotation, 0, 1, axes)
        if axes == 3 and space[2] >= DEEP * max(space[:2]):
            rotation = rotation @ _rotation(self.tilt[:, 0], 1, 2, axes)
            rotation = rotation @ _rotation(self.tilt[:, 1], 0, 2, axes)
        factors = self.sign[:, :axes].clone()
        factors[:, :2] /= self.scale[:, None]
        size = torch.tensor(space).to(rotation)
        matrix = rotation * factors[:, None, :] * size / size[:, None]
        shift = self.shift[:, :axes] * _thick(space).to(rotation)
        return torch.cat([matrix.flip(1, 2), shift.flip(1)[:, :, None]], dim=2)

    def _displacement(self, space: torch.Size) -> Float[Tensor, "B *space D"]:
        """Drawn at the control points and smooth in between."""
        axes = len(space)
        points = [min(CONTROL_POINTS, n) for n in space]
        drawn = 2 * uniform(self.seeds, axes, *points, purpose=Purpose.WARP) - 1
        column = (-1,) + (1,) * (axes + 1)
        thick = _thick(space).flip(0).to(drawn).reshape(1, axes, *[1] * axes)
        field = self.warp.reshape(column) * thick * drawn
        mode = "bicubic" if axes == 2 else "trilinear"
        return interpolate(field, tuple(space), mode=mode, align_corners=True).movedim(1, -1)


def _rotation(
    angle: Float[Tensor, " B"], first: int, second: int, axes: int
) -> Float[Tensor, "B D D"]:
    """The rotation of two of the axes into each other."""
    matrix = torch.eye(axes).to(angle).repeat(len(angle), 1, 1)
    matrix[:, first, first] = angle.cos()
    matrix[:, second, second] = angle.cos()
    matrix[:, first, second] = angle.sin()
    matrix[:, second, first] = -angle.sin()
    return matrix


def _thick(space: torch.Size) -> Float[Tensor, " D"]:
    """1 for the axes along which an image may be shifted and deformed, 0 for the few slices of a thin one."""
    return torch.tensor([float(n >= THIN * max(space)) for n in space])
