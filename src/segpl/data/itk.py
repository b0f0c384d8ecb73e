"""From SimpleITK's images to arrays with an affine, and from label maps to SimpleITK's images."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Integer, Shaped

from segpl.data.formats.image import spacing
from segpl.data.formats.itk import TO_RAS, itk_affine

if TYPE_CHECKING:
    import SimpleITK


def from_itk(
    image: "SimpleITK.Image",
) -> tuple[Shaped[np.ndarray, "C X Y Z"], Float[np.ndarray, "4 4"]]:
    """Voxels and affine of a 2D or 3D image; the components of a voxel are its channels."""
    import SimpleITK

    several, flat = image.GetNumberOfComponentsPerPixel() > 1, image.GetDimension() == 2
    values = SimpleITK.GetArrayFromImage(image).T
    values = values if several else values[None]
    return values[..., None] if flat else values, itk_affine(image)


def to_itk(
    label: Integer[np.ndarray, "X Y Z"], affine: Float[np.ndarray, "4 4"]
) -> "SimpleITK.Image":
    """A label map that lies where the affine says."""
    import SimpleITK

    image, placed = SimpleITK.GetImageFromArray(label.T), TO_RAS @ affine
    image.SetSpacing(spacing(affine))
    image.SetDirection((placed[:3, :3] / spacing(affine)).ravel().tolist())
    image.SetOrigin(placed[:3, 3].tolist())
    return image
