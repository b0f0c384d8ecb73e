"""MHD, MHA, NRRD and DICOM, through SimpleITK."""

import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from segpl.data.formats.image import (
    Affine,
    ImageShape,
    LazyImage,
    Voxels,
    channels_first,
    shape_from_axes,
)
from segpl.foundation.errors import UserError

if TYPE_CHECKING:
    import SimpleITK

TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
"""ITK's axes point left and back, those of NIfTI right and front."""

_READERS = {
    ".mha": "MetaImageIO",
    ".mhd": "MetaImageIO",
    ".nrrd": "NrrdImageIO",
    ".nhdr": "NrrdImageIO",
}
_DICOM_READER = "GDCMImageIO"
_DICOM_PREAMBLE = 128  # bytes before the letters DICM
_UNEVEN_SLICES = 0.25
"""The largest deviation of a slice distance from the mean distance, as a share of the mean."""

_STDERR_DESCRIPTOR = 2
_STDERR_LOCK = threading.Lock()
_DECOMPRESSION_FAILED = "Uncompress failed"


def open_itk(file: Path) -> LazyImage:
    """Open an image in one file. Its fourth axis or the components of a voxel are the channels."""
    import SimpleITK

    reader = SimpleITK.ImageFileReader()
    reader.SetImageIO(_READERS.get(file.suffix.lower(), _DICOM_READER))
    reader.SetFileName(str(file))
    with _itk_errors():
        reader.ReadImageInformation()
    shape = shape_from_axes(file, reader.GetSize(), reader.GetNumberOfComponents())

    def read() -> Voxels:
        return _read_voxels(reader.Execute, shape)

    return LazyImage(shape, itk_affine(reader), read)


def open_series(folder: Path) -> LazyImage:
    """Open the DICOM series in `folder`, with the slices in the order of their positions."""
    import SimpleITK

    files = series_files(folder)
    slices = [open_itk(Path(file)) for file in files]
    if len(slices) == 1:
        return slices[0]
    reader = SimpleITK.ImageSeriesReader()
    reader.SetImageIO(_DICOM_READER)
    reader.SetFileNames(files)
    channels, x, y, _ = slices[0].shape
    shape = (channels, x, y, len(slices))

    def read() -> Voxels:
        return _read_voxels(reader.Execute, shape)

    return LazyImage(shape, _series_affine(folder, slices), read)


def holds_dicom(folder: Path) -> bool:
    """Whether any file directly in `folder` is DICOM. Its name need not end in .dcm."""
    return any(_is_dicom(file) for file in folder.iterdir() if file.is_file())


def _is_dicom(file: Path) -> bool:
    if file.suffix.lower() == ".dcm":
        return True
    with file.open("rb") as content:
        content.seek(_DICOM_PREAMBLE)
        return content.read(4) == b"DICM"


def series_files(folder: Path) -> tuple[str, ...]:
    """The files of the DICOM series in `folder`, in the order of their positions.

    An error if the folder does not hold exactly one series.
    """
    import SimpleITK

    with _itk_errors():
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
) -> Affine:
    """From voxel indices to RAS+ millimetres, for an image or for a reader that read the header."""
    dimension = image.GetDimension()
    spatial = min(dimension, 3)
    direction = np.reshape(image.GetDirection(), (dimension, dimension))[:spatial, :spatial]
    affine = np.eye(4)
    affine[:spatial, :spatial] = direction * image.GetSpacing()[:spatial]
    affine[:spatial, 3] = image.GetOrigin()[:spatial]
    return TO_RAS @ affine


def _series_affine(folder: Path, slices: list[LazyImage]) -> Affine:
    """The affine of the first slice, with the mean step between slices as its third column.

    ITK would not report a missing slice; it would increase the spacing.
    """
    affine = slices[0].affine.copy()
    positions = [single.affine[:3, 3] for single in slices]
    steps = np.diff(positions, axis=0)
    if not steps.any():  # no slice has a position, as in secondary captures
        return affine
    mean_step = steps.mean(axis=0)
    deviations = np.linalg.norm(steps - mean_step, axis=1)
    if deviations.max() > _UNEVEN_SLICES * np.linalg.norm(mean_step):
        raise UserError(
            f"{folder} has slices at uneven distances: "
            "export the series again, without missing or duplicate slices."
        )
    affine[:3, 2] = mean_step
    return affine


def _read_voxels(execute: "Callable[[], SimpleITK.Image]", shape: ImageShape) -> Voxels:
    import SimpleITK

    with _itk_errors():
        image = execute()
    values = SimpleITK.GetArrayFromImage(image).T
    if image.GetNumberOfComponentsPerPixel() > 1:
        return values.reshape(shape)  # the components are the first axis already
    return channels_first(values, shape)


@contextmanager
def _itk_errors() -> Iterator[None]:
    """Raise an `OSError` with the reason if ITK fails, and keep ITK's output off the terminal.

    ITK does not fail on corrupt compressed voxels: it prints a line and returns whatever was in
    memory. So the printed text is searched for that line.
    """
    import SimpleITK

    SimpleITK.ProcessObject_SetGlobalWarningDisplay(False)
    reason = ""
    with _STDERR_LOCK, tempfile.TemporaryFile() as output:
        with _stderr_redirected_to(output):
            try:
                yield
            except RuntimeError as error:
                reason = _cause(str(error))
        output.seek(0)
        printed = output.read().decode(errors="replace").strip()
    # Other lines, such as a progress bar from another thread, are not the reason.
    failures = [line for line in printed.splitlines() if _DECOMPRESSION_FAILED in line]
    if failures:
        raise OSError(failures[0])
    if reason:
        raise OSError(reason)


@contextmanager
def _stderr_redirected_to(output: IO[bytes]) -> Iterator[None]:
    """Send what this process, C++ code included, writes to the standard error to a file."""
    terminal = os.dup(_STDERR_DESCRIPTOR)
    os.dup2(output.fileno(), _STDERR_DESCRIPTOR)
    try:
        yield
    finally:
        os.dup2(terminal, _STDERR_DESCRIPTOR)
        os.close(terminal)


def _cause(message: str) -> str:
    """The last line of ITK's message, which is closest to the cause, without memory addresses."""
    last_line = message.strip().splitlines()[-1]
    return re.sub(r"^.*ERROR: |\w+\(0x[0-9a-f]+\): ", "", last_line)
