"""NIfTI. The fourth axis holds the channels, as in the Medical Segmentation Decathlon."""

from pathlib import Path

import nibabel
import numpy as np
from jaxtyping import Shaped

from segpl.data.formats.image import Opened, channels


def open_nifti(file: Path) -> Opened:
    """The image; the voxels of an uncompressed file are mapped into memory."""
    image = nibabel.load(file)
    x, y, z, *others = (*image.shape, 1, 1)[: max(len(image.shape), 3)]
    shape = (channels(file, others), x, y, z)

    def read() -> Shaped[np.ndarray, "C X Y Z"]:
        return np.moveaxis(np.asanyarray(image.dataobj).reshape(*shape[1:], shape[0]), -1, 0)

    return Opened(shape, image.affine, read)
