"""A scan that a program holds in memory: an array, or an image of nibabel or SimpleITK."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from jaxtyping import Float, Shaped
from nibabel.spatialimages import SpatialImage

from segpl.data.cases import Case
from segpl.data.formats import Image
from segpl.data.formats.image import array_shape, channel_count
from segpl.data.itk import from_itk
from segpl.data.scans import Scan
from segpl.foundation.errors import UserError


def from_memory(image: Any, spacing: Sequence[float] | None) -> Scan:
    """The scan of an image in memory.

    An array is taken to have the orientation of the training images and `spacing` mm between
    voxels, which must be given. The other types know both.
    """
    type_name = type(image).__name__
    name = Path(f"the {type_name}")
    header = None
    is_array = isinstance(image, np.ndarray)
    if is_array:
        values = image.reshape(array_shape(name, image.shape))
        affine = _array_affine(name, spacing)
    elif isinstance(image, SpatialImage):
        values = _nibabel_voxels(name, image)
        affine = image.affine
        if isinstance(image.header, nibabel.Nifti1Header):
            header = image.header
    elif hasattr(image, "GetDirection"):  # SimpleITK's; its import is slow, so no isinstance
        values, affine = from_itk(image)
    else:
        raise UserError(
            f"a {type_name} is not a scan: give one file, array, nibabel image or SimpleITK image "
            "at a time."
        )
    case = Case("scan", "scan", (name,))
    return Scan(case, [Image(name, values, affine)], None, header, is_array)


def _array_affine(name: Path, spacing: Sequence[float] | None) -> Float[np.ndarray, "4 4"]:
    """A diagonal affine; a third axis without a spacing has 1 mm."""
    if spacing is None:
        raise UserError(
            f"{name} does not say how far its voxels are apart: give it in mm, "
            "as in spacing=(1, 1, 3)."
        )
    steps = [*spacing, 1.0, 1.0, 1.0][:3]
    return np.diag([*steps, 1.0])


def _nibabel_voxels(name: Path, image: SpatialImage) -> Shaped[np.ndarray, "C X Y Z"]:
    """The voxels of a nibabel image; axes after the third are channels."""
    padded_shape = (*image.shape, 1, 1)
    x, y, z, *other_axes = padded_shape[: max(image.ndim, 3)]
    voxels = np.asanyarray(image.dataobj)
    voxels = voxels.reshape(x, y, z, channel_count(name, other_axes))
    return np.moveaxis(voxels, -1, 0)
