"""NIfTI. The fourth axis holds the channels, as in the Medical Segmentation Decathlon."""

from pathlib import Path

import nibabel
import numpy as np

from segpl.data.formats.image import LazyImage, Voxels, channels_first, shape_from_axes


def open_nifti(file: Path) -> LazyImage:
    """Open a NIfTI file. The voxels of an uncompressed file are memory-mapped."""
    image = nibabel.load(file)
    shape = shape_from_axes(file, image.shape)

    def read() -> Voxels:
        values = np.asanyarray(image.dataobj)
        return channels_first(values, shape)

    return LazyImage(shape, image.affine, read)
