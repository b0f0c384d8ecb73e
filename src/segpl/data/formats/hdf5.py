"""HDF5: the dataset `image`, or `label` for "case.h5#label", and the attribute `spacing`."""

from pathlib import Path

import numpy as np

from segpl.data.formats.image import Affine, LazyImage, Voxels, array_shape, split_array_name
from segpl.foundation.errors import UserError

_DEFAULT_DATASET = "image"
_DEFAULT_SPACING = (1.0, 1.0, 1.0)


def open_hdf5(file: Path) -> LazyImage:
    """Open an array [X, Y], [X, Y, Z] or [C, X, Y, Z].

    The attribute `spacing` of the dataset takes precedence over that of the whole file.
    """
    import h5py  # type: ignore[import-untyped, unused-ignore]

    path, name = split_array_name(file)
    name = name or _DEFAULT_DATASET
    with h5py.File(path) as content:
        dataset = content.get(name)
        if not isinstance(dataset, h5py.Dataset):
            available = ", ".join(content) or "nothing"
            raise UserError(
                f'{file} has no dataset "{name}", only {available}: save the array as "{name}".'
            )
        shape = array_shape(file, dataset.shape or ())
        file_spacing = content.attrs.get("spacing", _DEFAULT_SPACING)
        spacing = dataset.attrs.get("spacing", file_spacing)
        affine = _affine(file, spacing)

    def read() -> Voxels:
        with h5py.File(path) as content:
            values = content[name][...]
        return values.reshape(shape)

    return LazyImage(shape, affine, read)


def _affine(file: Path, spacing: object) -> Affine:
    """The affine of axis-aligned voxels; an error if `spacing` is not three numbers."""
    millimetres = np.asarray(spacing)
    if millimetres.shape != (3,) or millimetres.dtype.kind not in "iuf":
        raise UserError(
            f'{file} has the attribute "spacing" {spacing}: '
            "set it to three numbers, the millimetres along X, Y and Z."
        )
    return np.diag([*millimetres.astype(float), 1.0])
