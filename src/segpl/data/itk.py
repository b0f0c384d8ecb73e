"""Convert SimpleITK images to arrays with an affine, and label maps to SimpleITK images."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Integer

from segpl.data.formats.image import Affine, Voxels, spacing
from segpl.data.formats.itk import TO_RAS, itk_affine

if TYPE_CHECKING:
    import SimpleITK


def from_itk(
    image: "SimpleITK.Image",
) -> tuple[Voxels, Affine]:
    """The voxels and the affine of a 2D or 3D image; the components of a voxel are channels."""
    import SimpleITK

    values = SimpleITK.GetArrayFromImage(image).T
    has_channels = image.GetNumberOfComponentsPerPixel() > 1
    if not has_channels:
        values = values[None]
    if image.GetDimension() == 2:
        values = values[..., None]
    return values, itk_affine(image)


def to_itk(label: Integer[np.ndarray, "X Y Z"], affine: Affine) -> "SimpleITK.Image":
    """The label map as an image with the spacing, direction and origin of the affine."""
    import SimpleITK

    image = SimpleITK.GetImageFromArray(label.T)
    lps_affine = TO_RAS @ affine
    direction = lps_affine[:3, :3] / spacing(affine)
    image.SetSpacing(spacing(affine))
    image.SetDirection(direction.ravel().tolist())
    image.SetOrigin(lps_affine[:3, 3].tolist())
    return image
