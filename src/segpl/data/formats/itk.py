"""MHD, MHA, NRRD and DICOM, through SimpleITK."""

import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Shaped

from segpl.data.formats.image import Opened, channels
from segpl.foundation.errors import UserError

if TYPE_CHECKING:
    import SimpleITK

_READERS = {
    ".mha": "MetaImageIO",
    ".mhd": "MetaImageIO",
    ".nrrd": "NrrdImageIO",
    ".nhdr": "NrrdImageIO",
}
_STDERR = threading.Lock()
TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
"""ITK's axes point to the left and the back, those of NIfTI to the right and the front."""


def open_itk(file: Path) -> Opened:
    """The image in one file: its fourth axis, or the components of a voxel, are the channels."""
    import SimpleITK

    reader = SimpleITK.ImageFileReader()
    reader.SetImageIO(_READERS.get(file.suffix.lower(), "GDCMImageIO"))
    reader.SetFileName(str(file))
    with _quiet():
        reader.ReadImageInformation()
    x, y, z, *others = (*reader.GetSize(), 1)[: max(reader.GetDimension(), 3)]
    shape = (channels(file, (*others, reader.GetNumberOfComponents())), x, y, z)
    return Opened(shape, itk_affine(reader), lambda: _voxels(reader.Execute, shape))


def open_series(folder: Path) -> Opened:
    """The one DICOM series in `folder`, slices in the order of their positions."""
    import SimpleITK

    files = series_files(folder)
    slices = [open_itk(Path(file)) for file in files]
    if len(slices) == 1:
        return slices[0]
    reader = SimpleITK.ImageSeriesReader()
    reader.SetImageIO("GDCMImageIO")
    reader.SetFileNames(files)
    shape = (*slices[0].shape[:3], len(slices))
    return Opened(shape, _stacked(folder, slices), lambda: _voxels(reader.Execute, shape))


def holds_dicom(folder: Path) -> bool:
    """Whether any file directly in `folder` is DICOM; many scanners write names without an ending."""
    return any(_is_dicom(file) for file in folder.iterdir() if file.is_file())


def _is_dicom(file: Path) -> bool:
    if file.suffix.lower() == ".dcm":
        return True
    with file.open("rb") as content:
        content.seek(128)
        return content.read(4) == b"DICM"


def series_files(folder: Path) -> tuple[str, ...]:
    """The files of the one DICOM series in `folder`, in the order of their positions."""
    import SimpleITK

    with _quiet():
        series = SimpleITK.ImageSeriesReader.GetGDCMSeriesIDs(str(folder))
        if len(series) == 1:
            return SimpleITK.ImageSeriesReader.GetGDCMSeriesFileNames(str(folder), series[0])
    if series:
        raise UserError(
            f"{folder} holds {len(series)} DICOM series: keep one series in each folder."
        )
    raise UserError(
        f"{folder} holds no DICOM image: give an image file, or a folder with one DICOM series."
    )


def itk_affine(
    image: "SimpleITK.ImageFileReader | SimpleITK.Image",
) -> Float[np.ndarray, "4 4"]:
    """From voxels to RAS+ millimetres, of an image or of a reader that has read the header."""
    dimension = image.GetDimension()
    space = min(dimension, 3)
    direction = np.reshape(image.GetDirection(), (dimension, dimension))[:space, :space]
    affine = np.eye(4)
    affine[:space, :space] = direction * image.GetSpacing()[:space]
    affine[:space, 3] = image.GetOrigin()[:space]
    return TO_RAS @ affine


def _stacked(folder: Path, slices: list[Opened]) -> Float[np.ndarray, "4 4"]:
    """The first slice's affine with the mean step between slices; ITK would hide a missing slice in the spacing."""
    affine = slices[0].affine.copy()
    steps = np.diff([each.affine[:3, 3] for each in slices], axis=0)
    if not steps.any():  # no slice has a position, as in secondary captures
        return affine
    step = steps.mean(axis=0)
    if np.linalg.norm(steps - step, axis=1).max() > 0.25 * np.linalg.norm(step):
        raise UserError(
            f"{folder} has slices at uneven distances: export the series again, whole and without doubles."
        )
    affine[:3, 2] = step
    return affine


def _voxels(
    execute: "Callable[[], SimpleITK.Image]", shape: tuple[int, int, int, int]
) -> Shaped[np.ndarray, "C X Y Z"]:
    import SimpleITK

    with _quiet():
        image = execute()
    values = SimpleITK.GetArrayFromImage(image).T
    if image.GetNumberOfComponentsPerPixel() > 1:
        return values.reshape(shape)
    return np.moveaxis(values.reshape(*shape[1:], shape[0]), -1, 0)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what ITK's C++ writes to the terminal, and turn it into the reason of an error.

    Broken compressed voxels are no error to ITK, which hands out whatever was in memory: it only prints as much.
    """
    import SimpleITK

    SimpleITK.ProcessObject_SetGlobalWarningDisplay(False)
    with _STDERR, tempfile.TemporaryFile() as notes:
        error = ""
        terminal = os.dup(2)
        os.dup2(notes.fileno(), 2)
        try:
            yield
        except RuntimeError as raised:
            error = _reason(str(raised))
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
        notes.seek(0)
        printed = notes.read().decode(errors="replace").strip()
    if error or "Uncompress failed" in printed:
        # What else is printed meanwhile, such as a progress bar, is no reason.
        reasons = [line for line in printed.splitlines() if "Uncompress failed" in line]
        raise OSError(reasons[0] if reasons else error)


def _reason(message: str) -> str:
    """The last line is the closest to the cause; addresses in memory help nobody."""
    return re.sub(r"^.*ERROR: |\w+\(0x[0-9a-f]+\): ", "", message.strip().splitlines()[-1])
