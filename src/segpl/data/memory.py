"""A scan that a program holds in memory: an array, or an image of nibabel or SimpleITK."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from jaxtyping import Shaped
from nibabel.spatialimages import SpatialImage

from segpl.data.cases import Case
from segpl.data.formats import Image
from segpl.data.formats.image import array_shape, channels
from segpl.data.itk import from_itk
from segpl.data.preparation import Scan
from segpl.foundation.errors import UserError


def from_memory(image: Any, spacing: Sequence[float] | None) -> Scan:
    """The scan. An array has the orientation of the training images, and `spacing` mm between voxels."""
    name = Path(f"the {type(image).__name__}")
    header = None
    if isinstance(image, np.ndarray):
        values = image.reshape(array_shape(name, image.shape))
        steps = [*(() if spacing is None else spacing), 1.0, 1.0, 1.0][:3]
        affine = np.diag([*steps, 1.0])
    elif isinstance(image, SpatialImage):
        values = _voxels(name, image)
        affine = image.affine
        if isinstance(image.header, nibabel.Nifti1Header):
            header = image.header
    elif hasattr(image, "GetDirection"):  # of SimpleITK, which is slow to import
        values, affine = from_itk(image)
    else:
        raise UserError(
            f"a {type(image).__name__} is no scan: give one file, array, nibabel image or SimpleITK image at a time."
        )
    case = Case("scan", "scan", (name,))
    return Scan(case, [Image(name, values, affine)], None, header, isinstance(image, np.ndarray))


def _voxels(name: Path, image: SpatialImage) -> Shaped[np.ndarray, "C X Y Z"]:
    """The voxels of an image of nibabel; axes after the third are channels."""
    x, y, z, *others = (*image.shape, 1, 1)[: max(image.ndim, 3)]
    voxels = np.asanyarray(image.dataobj).reshape(x, y, z, channels(name, others))
    return np.moveaxis(voxels, -1, 0)
