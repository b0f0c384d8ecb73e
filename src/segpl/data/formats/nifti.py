"""NIfTI. The fourth axis holds the channels, as in the Medical Segmentation Decathlon."""

import gzip
from math import prod
from pathlib import Path

import nibabel
import numpy as np
from jaxtyping import Shaped
from nibabel.arrayproxy import ArrayProxy

from segpl.data.formats.image import LazyImage, Voxels, channels_first, shape_from_axes
from segpl.data.formats.limits import check_compressed_size

_MOST_BYTES_AFTER_THE_VOXELS = 1024


def open_nifti(file: Path) -> LazyImage:
    """Open a NIfTI file. The voxels of an uncompressed file are memory-mapped."""
    image = nibabel.load(file)
    if not isinstance(image, nibabel.Nifti1Image):  # Nifti2Image is a subclass of it
        raise ValueError("it is not NIfTI")
    shape = shape_from_axes(file, image.shape)

    def read() -> Voxels:
        claimed = _bytes_by_header(image)
        size = file.stat().st_size
        if file.name.lower().endswith(".gz"):
            check_compressed_size(claimed, size)
            values = _read_to_the_checksum(file, image)
        else:
            _check_size(claimed, size)
            values = np.asanyarray(image.dataobj)
        return channels_first(values, shape)

    return LazyImage(shape, image.affine, read)


def _bytes_by_header(image: nibabel.Nifti1Image) -> int:
    """The length of the uncompressed file that the header describes."""
    stored = image.dataobj
    return int(stored.offset) + prod(stored.shape) * int(stored.dtype.itemsize)


def _check_size(claimed: int, size: int) -> None:
    if claimed > size:
        raise EOFError("its header claims more voxels than the file holds")
    if size > claimed + _MOST_BYTES_AFTER_THE_VOXELS:
        raise ValueError("the file holds more voxels than its header claims")


def _read_to_the_checksum(file: Path, image: nibabel.Nifti1Image) -> Shaped[np.ndarray, "..."]:
    """The voxels of a compressed file, of which the checksum and the length are verified.

    nibabel stops after the last voxel, before the checksum at the end of the file.
    """
    with gzip.open(file) as content:
        stored = image.dataobj
        description = (stored.shape, stored.dtype, stored.offset, stored.slope, stored.inter)
        values = np.asanyarray(ArrayProxy(content, description, mmap=False))
        _read_to_the_end(content)
    return values


def _read_to_the_end(content: gzip.GzipFile) -> None:
    remaining = content.read(_MOST_BYTES_AFTER_THE_VOXELS + 1)  # gzip verifies at the end
    if len(remaining) > _MOST_BYTES_AFTER_THE_VOXELS:
        raise ValueError("the file holds more voxels than its header claims")
