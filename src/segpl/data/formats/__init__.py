"""Image files of every format: one small file per format, and one line in the table."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from segpl.data.formats.arrays import open_npy, open_npz
from segpl.data.formats.hdf5 import open_hdf5
from segpl.data.formats.image import Grid, Image, Opened, orientation, spacing, split
from segpl.data.formats.itk import holds_dicom, open_itk, open_series
from segpl.data.formats.nifti import open_nifti
from segpl.data.formats.pictures import open_picture
from segpl.foundation.errors import UserError

__all__ = ["ENDINGS", "Grid", "Image", "is_image", "read_grid", "read_image", "stem"]

_OPENERS: dict[tuple[str, ...], Callable[[Path], Opened]] = {
    (".nii.gz", ".nii"): open_nifti,
    (".mha", ".mhd", ".nrrd", ".nhdr", ".dcm"): open_itk,
    (".npy",): open_npy,
    (".npz",): open_npz,
    (".h5", ".hdf5"): open_hdf5,
    (".png", ".tif", ".tiff", ".gif", ".jpg", ".jpeg", ".bmp"): open_picture,
}
ENDINGS = tuple(ending for endings in _OPENERS for ending in endings)


def read_image(file: Path) -> Image:
    """The image in `file`, or in a folder that holds one DICOM series. Values keep their type."""
    with _readable(file):
        opened = _open(file)
        values = opened.read()
    if values.dtype.kind not in "biuf":
        raise UserError(f"{file} holds no plain numbers: export it as grey values.")
    return Image(file, values.astype(values.dtype.newbyteorder("="), copy=False), opened.affine)


def read_grid(file: Path) -> Grid:
    """Shape, spacing, channels and orientation from the header alone."""
    with _readable(file):
        opened = _open(file)
    return Grid(
        opened.shape[1:], spacing(opened.affine), opened.shape[0], orientation(opened.affine)
    )


def is_image(file: Path) -> bool:
    """Whether the name is an image's, or the folder holds DICOM files. Hidden files are none."""
    if file.is_dir():
        return holds_dicom(file)
    return bool(_ending(file)) and not file.name.startswith(".")


def stem(file: Path) -> str:
    """The name without the ending: "a" of "a.nii.gz" and of "a.h5#label"."""
    name = split(file)[0].name
    return name[: len(name) - len(_ending(file))]


def _ending(file: Path) -> str:
    name = split(file)[0].name.lower()
    return next((ending for ending in ENDINGS if name.endswith(ending)), "")


def _open(file: Path) -> Opened:
    opened = _opener(file)(file)
    if not all(opened.shape):
        raise UserError(f"{file} holds no voxels: export the file again.")
    spaces = spacing(opened.affine)
    if not np.isfinite(opened.affine).all() or not all(spaces):
        shown = " x ".join(f"{space:g}" for space in spaces)
        raise UserError(
            f"{file} has a spacing of {shown} mm: correct its header or export the file again."
        )
    return opened


def _opener(file: Path) -> Callable[[Path], Opened]:
    path = split(file)[0]
    if file.is_dir():
        return open_series
    if not path.exists():
        raise UserError(f"{file} does not exist: correct the path or put the file there.")
    if not _ending(file):
        raise UserError(
            f"{file} is of no format that segpl reads: use one of {', '.join(ENDINGS)}."
        )
    if not path.stat().st_size:
        raise EOFError("it is empty")
    return next(opener for endings, opener in _OPENERS.items() if _ending(file) in endings)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # those who read for us raise whatever they like, even SyntaxError
        lines = (str(error).strip() or type(error).__name__).splitlines()
        reason = lines[0].replace(str(file), file.name).rstrip(".:")
        raise UserError(
            f"{file} cannot be read ({reason}): copy or export the file again."
        ) from error
