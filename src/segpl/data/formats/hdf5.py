"""HDF5: the data set `image`, or `label` of "case.h5#label", and the attribute `spacing`."""

from pathlib import Path

import numpy as np
from jaxtyping import Float, Shaped

from segpl.data.formats.image import Opened, array_shape, split
from segpl.foundation.errors import UserError


def open_hdf5(file: Path) -> Opened:
    """[X, Y], [X, Y, Z] or [C, X, Y, Z]; the spacing stands with the data set or with the whole file."""
    import h5py  # type: ignore[import-untyped, unused-ignore]

    path, name = split(file)
    with h5py.File(path) as content:
        values = content.get(name or "image")
        if not isinstance(values, h5py.Dataset):
            found = ", ".join(content) or "none"
            raise UserError(
                f'{file} holds no data set "{name or "image"}" but {found}: save it under that name.'
            )
        shape = array_shape(file, values.shape or ())
        affine = _affine(
            file, values.attrs.get("spacing", content.attrs.get("spacing", (1.0, 1.0, 1.0)))
        )

    def read() -> Shaped[np.ndarray, "C X Y Z"]:
        with h5py.File(path) as content:
            return content[name or "image"][...].reshape(shape)

    return Opened(shape, affine, read)


def _affine(file: Path, spacing: object) -> Float[np.ndarray, "4 4"]:
    spaces = np.asarray(spacing)
    if spaces.shape != (3,) or spaces.dtype.kind not in "iuf":
        raise UserError(
            f'{file} has the "spacing" {spacing}: give three numbers, the millimetres along X, Y and Z.'
        )
    return np.diag([*spaces.astype(float), 1.0])
