"""What all image formats share: the types of an image, its geometry and the shapes it may have."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped
from nibabel.orientations import aff2axcodes

from segpl.foundation.errors import UserError

Affine = Float[np.ndarray, "4 4"]
"""From voxel indices to RAS+ millimetres, as in nibabel."""
Voxels = Shaped[np.ndarray, "C X Y Z"]
ImageShape = tuple[int, int, int, int]
"""C, X, Y, Z: the number of channels, then the number of voxels along each axis."""


class Image(NamedTuple):
    """The voxels of one file and their position in space. A 2D image has one slice."""

    file: Path
    values: Voxels
    affine: Affine
    """The identity if the format does not store it."""


class Grid(NamedTuple):
    """The geometry of an image without its voxels."""

    shape: tuple[int, int, int]
    spacing: tuple[float, float, float]
    """In millimetres."""
    channels: int
    orientation: str | None
    """The directions of the axes, such as RAS. None if the format does not store them."""


class LazyImage(NamedTuple):
    """An image whose header has been read; `read` loads the voxels."""

    shape: ImageShape
    affine: Affine
    read: Callable[[], Voxels]


def spacing(affine: Affine) -> tuple[float, float, float]:
    """The distance between neighbouring voxels along X, Y and Z, in millimetres."""
    x, y, z = np.linalg.norm(affine[:3, :3], axis=0).tolist()
    return x, y, z


def is_placed(affine: Affine) -> bool:
    """Whether the affine says where the image is in space.

    Arrays and pictures have the identity, which says nothing about position or orientation.
    """
    return not np.allclose(affine, np.eye(4))


def orientation(affine: Affine) -> str | None:
    """The directions of the axes, such as RAS. None if the image has no position in space."""
    if not is_placed(affine):
        return None
    return "".join(aff2axcodes(affine))


def channel_count(file: Path, other_axes: Iterable[int]) -> int:
    """The number of channels, from the sizes of all axes other than X, Y and Z.

    At most one of these axes may be longer than 1.
    """
    sizes = [size for size in other_axes if size != 1]
    if not sizes:
        return 1
    if len(sizes) > 1:
        raise UserError(
            f"{file} has {3 + len(sizes)} dimensions: save each channel as its own 3D file."
        )
    return sizes[0]


def shape_from_axes(file: Path, axes: tuple[int, ...], components: int = 1) -> ImageShape:
    """The shape of an image with the axes X, Y, Z and perhaps a fourth one for channels.

    A 2D image has one slice. `components` is the number of values per voxel, which are channels
    as well.
    """
    at_least_3d = (*axes, 1, 1)[: max(len(axes), 3)]
    x, y, z, *other_axes = at_least_3d
    channels = channel_count(file, (*other_axes, components))
    return channels, x, y, z


def channels_first(values: Shaped[np.ndarray, "..."], shape: ImageShape) -> Voxels:
    """Values with the axes X, Y, Z and perhaps channels, as an array of `shape` (C, X, Y, Z)."""
    channels, x, y, z = shape
    channels_last = values.reshape(x, y, z, channels)
    return np.moveaxis(channels_last, -1, 0)


def array_shape(file: Path, shape: tuple[int, ...]) -> ImageShape:
    """The shape of an image that is stored as [X, Y], [X, Y, Z] or [C, X, Y, Z]."""
    if len(shape) == 2:
        x, y = shape
        return 1, x, y, 1
    if len(shape) == 3:
        x, y, z = shape
        return 1, x, y, z
    if len(shape) == 4:
        channels, x, y, z = shape
        return channels, x, y, z
    raise UserError(
        f"{file} has an array of shape {shape}: save it as [X, Y], [X, Y, Z] or [C, X, Y, Z]."
    )


def split_array_name(file: Path) -> tuple[Path, str]:
    """The path of a file and the name of an array in it, which is empty if none is given.

    "case.h5#label" becomes "case.h5" and "label".
    """
    match = re.fullmatch(r"(.+\.\w+)#([^.]+)", str(file), re.DOTALL)
    if match is None:
        return file, ""
    path, name = match.groups()
    return Path(path), name
