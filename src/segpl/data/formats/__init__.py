"""Read image files: one module per file format, and its endings in the table of openers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from segpl.data.formats.arrays import open_npy, open_npz
from segpl.data.formats.hdf5 import open_hdf5
from segpl.data.formats.image import (
    Affine,
    Grid,
    Image,
    LazyImage,
    is_placed,
    orientation,
    spacing,
    split_array_name,
)
from segpl.data.formats.itk import holds_dicom, open_itk, open_series
from segpl.data.formats.limits import check_spacing, check_voxel_count
from segpl.data.formats.nifti import open_nifti
from segpl.data.formats.pictures import open_picture
from segpl.foundation.errors import UserError

__all__ = [
    "ENDINGS",
    "Grid",
    "Image",
    "is_image",
    "read_grid",
    "read_image",
    "stem",
    "stores_geometry",
]

_OPENERS: dict[str, Callable[[Path], LazyImage]] = {
    ".nii.gz": open_nifti,
    ".nii": open_nifti,
    ".mha": open_itk,
    ".mhd": open_itk,
    ".nrrd": open_itk,
    ".nhdr": open_itk,
    ".dcm": open_itk,
    ".npy": open_npy,
    ".npz": open_npz,
    ".h5": open_hdf5,
    ".hdf5": open_hdf5,
    ".png": open_picture,
    ".tif": open_picture,
    ".tiff": open_picture,
    ".gif": open_picture,
    ".jpg": open_picture,
    ".jpeg": open_picture,
    ".bmp": open_picture,
}
ENDINGS = tuple(_OPENERS)

_OPENERS_WITHOUT_GEOMETRY = (open_npy, open_npz, open_hdf5, open_picture)
_ENDINGS_WITHOUT_GEOMETRY = {
    ending for ending, opener in _OPENERS.items() if opener in _OPENERS_WITHOUT_GEOMETRY
}

_NUMBER_KINDS = "biuf"  # NumPy's codes for bool, int, unsigned int and float


def read_image(file: Path) -> Image:
    """The image in `file`, or in a folder with one DICOM series. Values keep their data type."""
    with _failures_as_user_errors(file):
        lazy = _open(file)
        values = lazy.read()
    if values.dtype.kind not in _NUMBER_KINDS:
        raise UserError(f"{file} has values that are not plain numbers: export it as grey values.")
    native = values.dtype.newbyteorder("=")
    return Image(file, values.astype(native, copy=False), lazy.affine)


def read_grid(file: Path) -> Grid:
    """Shape, spacing, number of channels and orientation, from the header alone."""
    with _failures_as_user_errors(file):
        lazy = _open(file)
    channels, x, y, z = lazy.shape
    return Grid((x, y, z), spacing(lazy.affine), channels, orientation(lazy.affine))


def read_affine(file: Path) -> Affine:
    """The position of the voxels in space, from the header alone."""
    with _failures_as_user_errors(file):
        return _open(file).affine


def stores_geometry(file: Path) -> bool:
    """Whether the file stores its spacing and orientation.

    Pictures and arrays do not; their voxels are taken to be 1 mm apart. HDF5 may.
    """
    if _ending(file) not in _ENDINGS_WITHOUT_GEOMETRY:
        return True
    with _failures_as_user_errors(file):
        return is_placed(_open(file).affine)


def is_image(file: Path) -> bool:
    """Whether the file has the ending of an image, or the folder holds DICOM files.

    Hidden files do not count: macOS leaves files such as "._a.nii.gz" behind.
    """
    if file.is_dir():
        return holds_dicom(file)
    is_hidden = file.name.startswith(".")
    return _ending(file) != "" and not is_hidden


def stem(file: Path) -> str:
    """The name without its ending: "a" for "a.nii.gz" and for "a.h5#label"."""
    path, _ = split_array_name(file)
    return path.name[: len(path.name) - len(_ending(file))]


def _ending(file: Path) -> str:
    """The ending of an image file in lower case; empty for other files."""
    path, _ = split_array_name(file)
    name = path.name.lower()
    for ending in ENDINGS:
        if name.endswith(ending):
            return ending
    return ""


def _open(file: Path) -> LazyImage:
    """Read the header; an error if it claims no voxels, too many, or no plausible spacing."""
    opener = _opener(file)
    lazy = opener(file)
    check_voxel_count(file, lazy.shape)
    check_spacing(file, lazy.affine)
    return lazy


def _opener(file: Path) -> Callable[[Path], LazyImage]:
    """The function that opens this file or folder; an error if there is none."""
    if file.is_dir():
        return open_series
    path, _ = split_array_name(file)
    if not path.exists():
        raise UserError(f"{file} does not exist: correct the path or put the file there.")
    ending = _ending(file)
    if not ending:
        raise UserError(
            f"{file} has a format that segpl cannot read: use one of {', '.join(ENDINGS)}."
        )
    if path.stat().st_size == 0:
        raise EOFError("it is empty")
    return _OPENERS[ending]


@contextmanager
def _failures_as_user_errors(file: Path) -> Iterator[None]:
    """Turn any exception of a library into one sentence that names the file."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # libraries raise all kinds, even SyntaxError
        message = str(error).strip() or type(error).__name__
        first_line = message.splitlines()[0]
        reason = first_line.replace(str(file), file.name).rstrip(".:")
        raise UserError(
            f"{file} cannot be read ({reason}): copy or export the file again."
        ) from error
