"""NumPy's .npy and .npz: [X, Y], [X, Y, Z] or [C, X, Y, Z], of unknown spacing."""

import io
import zipfile
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from segpl.data.formats.image import Opened, array_shape, split
from segpl.foundation.errors import UserError

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_LONGEST = 2**14  # NumPy itself reads no header that is longer than 10 000


def open_npy(file: Path) -> Opened:
    """The array, mapped into memory."""
    with file.open("rb") as content:
        shape = array_shape(file, _shape(content.read(_LONGEST)))
    return Opened(shape, np.eye(4), lambda: np.load(file, mmap_mode="r").reshape(shape))


def open_npz(file: Path) -> Opened:
    """The array called as in "case.npz#name", otherwise `image`, otherwise `label`, otherwise the only one."""
    path, wanted = split(file)
    with zipfile.ZipFile(path) as archive:
        name = _name(file, wanted, [each.removesuffix(".npy") for each in archive.namelist()])
        with archive.open(f"{name}.npy") as content:
            shape = array_shape(file, _shape(content.read(_LONGEST)))

    def read() -> Shaped[np.ndarray, "C X Y Z"]:
        with np.load(path) as content:
            return content[name].reshape(shape)

    return Opened(shape, np.eye(4), read)


def _shape(header: bytes) -> tuple[int, ...]:
    content = io.BytesIO(header)
    version = np.lib.format.read_magic(content)
    if version not in _HEADERS:  # version 3 is for records with names
        raise ValueError("its values are no plain numbers")
    shape: tuple[int, ...] = _HEADERS[version](content)[0]
    return shape


def _name(file: Path, wanted: str, names: list[str]) -> str:
    candidates = (wanted,) if wanted else ("image", "label", *names[: len(names) == 1])
    for name in candidates:
        if name in names:
            return name
    raise UserError(
        f'{file} holds no array "{candidates[0]}" but {", ".join(names) or "none"}: save it under that name.'
    )
