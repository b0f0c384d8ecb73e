"""HDF5: the dataset `image`, or `label` for "case.h5#label", and the attribute `spacing`."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from segpl.data.formats.image import Affine, LazyImage, Voxels, array_shape, split_array_name
from segpl.foundation.errors import UserError

if TYPE_CHECKING:
    import h5py  # type: ignore[import-untyped, unused-ignore]

_DEFAULT_DATASET = "image"
_DEFAULT_SPACING = (1.0, 1.0, 1.0)


def open_hdf5(file: Path) -> LazyImage:
    """Open an array [X, Y], [X, Y, Z] or [C, X, Y, Z].

    The attribute `spacing` of the dataset takes precedence over that of the whole file.
    """
    import h5py

    path, name = split_array_name(file)
    name = name or _DEFAULT_DATASET
    with h5py.File(path) as content:
        _refuse_external_links(file, content, name)
        dataset = content.get(name)
        if not isinstance(dataset, h5py.Dataset):
            available = ", ".join(content) or "nothing"
            raise UserError(
                f'{file} has no dataset "{name}", only {available}: save the array as "{name}".'
            )
        _refuse_external_voxels(file, dataset)
        shape = array_shape(file, dataset.shape or ())
        file_spacing = content.attrs.get("spacing", _DEFAULT_SPACING)
        spacing = dataset.attrs.get("spacing", file_spacing)
        affine = _affine(file, spacing)

    def read() -> Voxels:
        with h5py.File(path) as content:
            dataset = content[name]
            if dataset.id.get_storage_size() == 0:  # HDF5 would make up values for them
                raise EOFError("its voxels were never written")
            values = dataset[...]
        return values.reshape(shape)

    return LazyImage(shape, affine, read)


def _refuse_external_links(file: Path, content: "h5py.File", name: str) -> None:
    """Raise an error if a part of the dataset's path leads to another file.

    Such a file could be any file of this machine.
    """
    import h5py

    parts = name.strip("/").split("/")
    for count in range(1, len(parts) + 1):
        link = content.get("/".join(parts[:count]), getlink=True)
        if isinstance(link, h5py.SoftLink) and link.path.strip("/") != name.strip("/"):
            _refuse_external_links(file, content, link.path)
        if isinstance(link, h5py.ExternalLink):
            raise _outside(file, link.filename)


def _refuse_external_voxels(file: Path, dataset: "h5py.Dataset") -> None:
    """Raise an error if the voxels of the dataset are stored in other files."""
    if dataset.external:
        raise _outside(file, dataset.external[0][0])
    if dataset.is_virtual:
        raise _outside(file, dataset.virtual_sources()[0].file_name)


def _outside(file: Path, other: object) -> UserError:
    return UserError(
        f"{file} takes its voxels from another file, {other}: save the array in the file itself."
    )


def _affine(file: Path, spacing: object) -> Affine:
    """The affine of axis-aligned voxels; an error if `spacing` is not three numbers above 0."""
    millimetres = np.asarray(spacing)
    is_numbers = millimetres.shape == (3,) and millimetres.dtype.kind in "iuf"
    if not is_numbers or not (millimetres > 0).all():
        raise UserError(
            f'{file} has the attribute "spacing" {spacing}: '
            "set it to three numbers above 0, the millimetres along X, Y and Z."
        )
    return np.diag([*millimetres.astype(float), 1.0])
