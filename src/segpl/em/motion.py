"""Geometric changes of an image: rotation, scaling, shift, elastic deformation, mirroring."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, interpolate

from segpl.em.broadcasting import append_axes
from segpl.em.tensors import Images, PerImage, Seeds
from segpl.foundation.draws import Purpose, uniform

CONTROL_POINTS = 4
"""Control points of the elastic deformation along each axis."""
THIN = 0.25
"""An axis shorter than this share of the longest is thin: no shift or deformation along it."""
DEEP = 0.5
"""A volume whose depth is at least this share of its width is tilted out of its plane as well."""


@dataclass(frozen=True)
class Motion:
    """How each image of a batch moves. Angles are in radians, lengths in shares of half a side."""

    rotation: PerImage
    """Angle in the plane of the first two axes."""
    tilt: Float[Tensor, "B 2"]
    """Angles out of that plane, about its first and second axis."""
    scale: PerImage
    """Magnification in the plane: objects grow if it is above 1."""
    shift: Float[Tensor, "B 3"]
    """Displacement along each axis."""
    warp: PerImage
    """The largest displacement of the elastic deformation."""
    sign: Float[Tensor, "B 3"]
    """-1 along the axes that are mirrored, 1 along the others."""
    seeds: Seeds
    """Seeds of the elastic deformation, one per image."""

    def apply(self, x: Images, mode: str) -> Images:
        """The moved images; `mode` is "bilinear" for grey values and "nearest" for labels.

        Beyond its border an image is continued by reflection, and so is its label: the network
        would learn a constant border as background.
        """
        space = x.shape[2:]
        # In half precision the coordinates would be off by half a voxel.
        with torch.autocast(x.device.type, enabled=False):
            matrix = self._affine_matrix(space)
            grid = affine_grid(matrix, list(x.shape), align_corners=False)
            grid = grid + self._displacement(space)
        return grid_sample(x, grid, mode=mode, padding_mode="reflection", align_corners=False)

    def _affine_matrix(self, space: torch.Size) -> Float[Tensor, "B D D+1"]:
        """The map from each voxel of the moved image to where it comes from, for `affine_grid`.

        torch lists coordinates from the last axis to the first and scales each axis to [-1, 1].
        Rotations are composed in voxels first, so that oblong images are not sheared.
        """
        axes = len(space)
        rotation = self._rotation_matrix(space)
        factors = self.sign[:, :axes].clone()
        factors[:, :2] /= self.scale[:, None]
        size = torch.tensor(space).to(rotation)
        matrix = rotation * factors[:, None, :] * size / size[:, None]
        is_thick = _is_thick(space).to(rotation)
        shift = self.shift[:, :axes] * is_thick
        last_axis_first = matrix.flip(1, 2)
        shift_column = shift.flip(1)[:, :, None]
        return torch.cat([last_axis_first, shift_column], dim=2)

    def _rotation_matrix(self, space: torch.Size) -> Float[Tensor, "B D D"]:
        """The rotation in the plane and, for deep volumes, the tilt out of it."""
        axes = len(space)
        rotation = _rotation_between(0, 1, self.rotation, axes)
        is_deep = axes == 3 and space[2] >= DEEP * max(space[:2])
        if is_deep:
            rotation = rotation @ _rotation_between(1, 2, self.tilt[:, 0], axes)
            rotation = rotation @ _rotation_between(0, 2, self.tilt[:, 1], axes)
        return rotation

    def _displacement(self, space: torch.Size) -> Float[Tensor, "B *space D"]:
        """The elastic deformation: drawn at the control points, smooth in between."""
        axes = len(space)
        points = [min(CONTROL_POINTS, size) for size in space]
        drawn = 2 * uniform(self.seeds, axes, *points, purpose=Purpose.WARP) - 1
        is_thick = _is_thick(space).flip(0).to(drawn)
        is_thick = append_axes(is_thick[None], like=drawn)
        at_points = append_axes(self.warp, like=drawn) * is_thick * drawn
        mode = "bicubic" if axes == 2 else "trilinear"
        field = interpolate(at_points, tuple(space), mode=mode, align_corners=True)
        return field.movedim(1, -1)


def _rotation_between(
    first: int, second: int, angle: PerImage, axes: int
) -> Float[Tensor, "B D D"]:
    """The matrix that rotates two of the axes into each other."""
    matrix = torch.eye(axes).to(angle).repeat(len(angle), 1, 1)
    matrix[:, first, first] = angle.cos()
    matrix[:, second, second] = angle.cos()
    matrix[:, first, second] = angle.sin()
    matrix[:, second, first] = -angle.sin()
    return matrix


def _is_thick(space: torch.Size) -> Float[Tensor, " D"]:
    """1 for the axes along which an image may be shifted and deformed, 0 for thin axes."""
    thinnest = THIN * max(space)
    return torch.tensor([float(size >= thinnest) for size in space])
