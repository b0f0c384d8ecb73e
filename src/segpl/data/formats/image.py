"""What every format of images shares: what an image is, and which shapes and values one may have."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped
from nibabel.orientations import aff2axcodes

from segpl.foundation.errors import UserError


class Image(NamedTuple):
    """One file: voxels and where they are. A 2D image has one slice."""

    file: Path
    values: Shaped[np.ndarray, "C X Y Z"]
    affine: Float[np.ndarray, "4 4"]
    """From voxels to RAS+ millimetres, as nibabel has it; the identity where the format does not say."""


class Grid(NamedTuple):
    """The voxels of an image without their values."""

    shape: tuple[int, int, int]
    spacing: tuple[float, float, float]
    channels: int
    orientation: str | None
    """The way the axes point, as in RAS; none where the format does not say."""


class Opened(NamedTuple):
    """An image of which only the header was read; `read` fetches the voxels."""

    shape: tuple[int, int, int, int]
    """C, X, Y, Z."""
    affine: Float[np.ndarray, "4 4"]
    read: Callable[[], Shaped[np.ndarray, "C X Y Z"]]


def spacing(affine: Float[np.ndarray, "4 4"]) -> tuple[float, float, float]:
    """Millimetres from one voxel to the next."""
    x, y, z = np.linalg.norm(affine[:3, :3], axis=0).tolist()
    return x, y, z


def is_placed(affine: Float[np.ndarray, "4 4"]) -> bool:
    """Whether an image says where it lies. Arrays and pictures have the identity, which says nothing."""
    return not np.allclose(affine, np.eye(4))


def orientation(affine: Float[np.ndarray, "4 4"]) -> str | None:
    """The way the axes point, as in RAS; none where the image does not say where it lies."""
    if not is_placed(affine):
        return None
    return "".join(aff2axcodes(affine))


def channels(file: Path, axes: Iterable[int]) -> int:
    """How many there are, from all axes but X, Y and Z."""
    real = [size for size in axes if size != 1]
    if len(real) > 1:
        raise UserError(
            f"{file} has {3 + len(real)} dimensions: give each channel as a 3D file of its own."
        )
    return real[0] if real else 1


def array_shape(file: Path, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """C, X, Y, Z of a bare array: [X, Y], [X, Y, Z] or [C, X, Y, Z]."""
    if not 2 <= len(shape) <= 4:
        raise UserError(
            f"{file} has an array of shape {shape}: save it as [X, Y], [X, Y, Z] or [C, X, Y, Z]."
        )
    c, x, y, z = {2: (1, *shape, 1), 3: (1, *shape), 4: shape}[len(shape)]
    return c, x, y, z


def split(file: Path) -> tuple[Path, str]:
    """File and name of an array in it, empty where none is given: "case.h5#label" is "case.h5" and "label"."""
    named = re.fullmatch(r"(.+\.\w+)#([^.]+)", str(file))
    return (Path(named[1]), named[2]) if named else (file, "")
