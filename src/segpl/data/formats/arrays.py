"""NumPy's .npy and .npz: [X, Y], [X, Y, Z] or [C, X, Y, Z], without a spacing."""

import io
import zipfile
from math import prod
from pathlib import Path

import numpy as np

from segpl.data.formats.image import LazyImage, Voxels, array_shape, split_array_name
from segpl.data.formats.limits import check_compressed_size
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
    stored_shape, _ = _shape_and_bytes(header)
    shape = array_shape(file, stored_shape)

    def read() -> Voxels:
        values = np.load(file, mmap_mode="r")  # fails if the file is too short
        if values.offset + values.nbytes != file.stat().st_size:
            raise ValueError("the file holds more voxels than its header claims")
        return values.reshape(shape)

    return LazyImage(shape, np.eye(4), read)


def open_npz(file: Path) -> LazyImage:
    """Open the array that "case.npz#name" names.

    Without a name, open `image`, else `label`, else the only array.
    """
    path, wanted = split_array_name(file)
    with zipfile.ZipFile(path) as archive:
        names = [member.removesuffix(".npy") for member in archive.namelist()]
        member = archive.getinfo(f"{_choose_array(file, wanted, names)}.npy")
        with archive.open(member) as content:
            header = content.read(_HEADER_BYTES)
    stored_shape, stored_bytes = _shape_and_bytes(header)
    shape = array_shape(file, stored_shape)
    check_compressed_size(stored_bytes, member.compress_size)

    def read() -> Voxels:
        with zipfile.ZipFile(path) as archive, archive.open(member) as content:
            values = np.lib.format.read_array(content)
            if content.read(1):  # the checksum is verified at the end
                raise ValueError("the file holds more voxels than its header claims")
        return values.reshape(shape)

    return LazyImage(shape, np.eye(4), read)


def _shape_and_bytes(header: bytes) -> tuple[tuple[int, ...], int]:
    """The shape of an array, and the bytes of its values, from the start of its .npy file."""
    content = io.BytesIO(header)
    version = np.lib.format.read_magic(content)
    if version not in _HEADER_READERS:  # version 3 is for records with named fields
        raise ValueError("its values are not plain numbers")
    shape: tuple[int, ...]
    shape, _fortran_order, dtype = _HEADER_READERS[version](content)
    return shape, prod(shape) * dtype.itemsize


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
