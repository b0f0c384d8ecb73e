"""NumPy's .npy and .npz: [X, Y], [X, Y, Z] or [C, X, Y, Z], without a spacing."""

import io
import zipfile
from pathlib import Path

import numpy as np

from segpl.data.formats.image import LazyImage, Voxels, array_shape, split_array_name
from segpl.foundation.errors import UserError

_HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_HEADER_BYTES = 2**14  # NumPy refuses headers of more than 10 000 bytes


def open_npy(file: Path) -> LazyImage:
    """Open an array; its voxels are memory-mapped."""
    with file.open("rb") as content:
        header = content.read(_HEADER_BYTES)
    shape = array_shape(file, _stored_shape(header))

    def read() -> Voxels:
        values = np.load(file, mmap_mode="r")
        return values.reshape(shape)

    return LazyImage(shape, np.eye(4), read)


def open_npz(file: Path) -> LazyImage:
    """Open the array that "case.npz#name" names.

    Without a name, open `image`, else `label`, else the only array.
    """
    path, wanted = split_array_name(file)
    with zipfile.ZipFile(path) as archive:
        names = [member.removesuffix(".npy") for member in archive.namelist()]
        name = _choose_array(file, wanted, names)
        with archive.open(f"{name}.npy") as content:
            header = content.read(_HEADER_BYTES)
    shape = array_shape(file, _stored_shape(header))

    def read() -> Voxels:
        with np.load(path) as content:
            values = content[name]
        return values.reshape(shape)

    return LazyImage(shape, np.eye(4), read)


def _stored_shape(header: bytes) -> tuple[int, ...]:
    """The shape of an array from the first bytes of its .npy file."""
    content = io.BytesIO(header)
    version = np.lib.format.read_magic(content)
    if version not in _HEADER_READERS:  # version 3 is for records with named fields
        raise ValueError("its values are not plain numbers")
    shape: tuple[int, ...]
    shape, _fortran_order, _dtype = _HEADER_READERS[version](content)
    return shape


def _choose_array(file: Path, wanted: str, names: list[str]) -> str:
    """The array to read: `wanted`, or the default if that is empty."""
    if wanted:
        candidates = [wanted]
    else:
        candidates = ["image", "label"]
        if len(names) == 1:
            candidates += names
    for candidate in candidates:
        if candidate in names:
            return candidate
    missing = candidates[0]
    available = ", ".join(names) or "nothing"
    raise UserError(
        f'{file} has no array "{missing}", only {available}: save the array as "{missing}".'
    )
