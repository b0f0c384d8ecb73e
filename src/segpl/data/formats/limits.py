"""Limits on what a header may claim, checked before any voxel is read.

A damaged or malicious header can claim terabytes. Environment variables raise the limits.
"""

import os
from collections.abc import Sequence
from math import prod
from pathlib import Path

import numpy as np

from segpl.data.formats.image import Affine, spacing
from segpl.foundation.errors import UserError

VOXELS_VARIABLE = "SEGPL_MAX_VOXELS"
SPACING_VARIABLE = "SEGPL_MAX_SPACING"
_MAX_VOXELS = 1e9
"""Values in an image, all channels together. As 32-bit floats these are 4 GB."""
_MAX_SPACING = 100.0
"""Millimetres between neighbouring voxels."""
_MIN_SPACING = 1e-6
"""Millimetres: a nanometre, less than a microscope resolves."""
_DEFLATE_RATIO = 1032
"""A byte compressed by gzip, zlib or zip expands to at most this many."""
_GZIP_OVERHEAD = 64
"""Bytes that may be missing in the estimate for a very small file."""


def check_voxel_count(file: Path, shape: Sequence[int]) -> None:
    """Raise an error if an image of this shape is empty or has more voxels than allowed."""
    if min(shape) < 1:
        raise UserError(f"{file} holds no voxels: export the file again.")
    limit = _limit(VOXELS_VARIABLE, _MAX_VOXELS)
    if prod(shape) > limit:
        sizes = " x ".join(str(size) for size in shape)
        raise UserError(
            f"{file} has {sizes} voxels by its header, and at most {limit:g} are read: export the "
            f"file again, or set {VOXELS_VARIABLE} to a higher number if it is really so large."
        )


def check_spacing(file: Path, affine: Affine) -> None:
    """Raise an error if the distances between voxels are implausible or not numbers."""
    distances = spacing(affine)
    limit = _limit(SPACING_VARIABLE, _MAX_SPACING)
    is_plausible = all(_MIN_SPACING <= distance <= limit for distance in distances)
    if is_plausible and np.isfinite(affine).all():
        return
    x, y, z = distances
    remedy = "correct its header or export the file again"
    if max(distances) > limit:
        remedy += f", or set {SPACING_VARIABLE} to more than {limit:g} if it is right"
    raise UserError(f"{file} has a spacing of {x:g} x {y:g} x {z:g} mm: {remedy}.")


def check_compressed_size(claimed_bytes: int, file_bytes: int) -> None:
    """Raise an `EOFError` if a compressed file is too small to hold what its header claims."""
    if claimed_bytes > _DEFLATE_RATIO * (file_bytes + _GZIP_OVERHEAD):
        raise EOFError("its header claims more voxels than the file holds")


def _limit(variable: str, default: float) -> float:
    text = os.environ.get(variable, "")
    if not text:
        return default
    try:
        limit = float(text)
    except ValueError:
        limit = 0.0
    if not limit > 0:
        raise UserError(f"{variable} is {text!r}: set it to a number above 0.")
    return limit
