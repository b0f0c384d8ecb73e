"""MHD, MHA, NRRD and DICOM, through SimpleITK."""

import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
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
from segpl.data.formats.stored_voxels import stored_voxels, verify
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
_DICOM_PREAMBLE = 128  # bytes before the letters
_DICOM_LETTERS = b"DICM"
_NOT_SLICES = ("DICOMDIR",)
"""DICOM files that list others."""
_UNEVEN_SLICES = 0.25
"""The largest deviation of a slice distance from the median distance, as a share of it."""

_STDERR_DESCRIPTOR = 2
_STDERR_LOCK = threading.Lock()
_DECOMPRESSION_FAILED = "Uncompress failed"


def open_itk(file: Path) -> LazyImage:
    """Open an image in one file. Its fourth axis or the components of a voxel are the channels."""
    import SimpleITK

    image_io = _READERS.get(file.suffix.lower(), _DICOM_READER)
    stored = None if image_io == _DICOM_READER else stored_voxels(file)
    reader = SimpleITK.ImageFileReader()
    reader.SetImageIO(image_io)
    reader.SetFileName(str(file))
    with _itk_errors():
        reader.ReadImageInformation()
    shape = shape_from_axes(file, reader.GetSize(), reader.GetNumberOfComponents())

    def read() -> Voxels:
        if stored:
            verify(stored, prod(shape) * _bytes_per_value(reader))
        return _read_voxels(reader.Execute, shape)

    return LazyImage(shape, itk_affine(reader), read)


def open_series(folder: Path) -> LazyImage:
    """Open the DICOM series in `folder`, with the slices in the order of their positions."""
    import SimpleITK

    files = series_files(folder)
    _check_all_slices_are_read(folder, files)
    slices = [open_itk(Path(file)) for file in files]
    if len(slices) == 1:
        return slices[0]
    _check_slices_match(files, slices)
    reader = SimpleITK.ImageSeriesReader()
    reader.SetImageIO(_DICOM_READER)
    reader.SetFileNames(files)
    channels, x, y, _ = slices[0].shape
    shape = (channels, x, y, len(slices))

    def read() -> Voxels:
        return _read_voxels(reader.Execute, shape)

    return LazyImage(shape, _series_affine(files, slices), read)


def holds_dicom(folder: Path) -> bool:
    """Whether any file directly in `folder` is DICOM. Its name need not end in .dcm."""
    return any(_is_dicom(file) for file in folder.iterdir() if file.is_file())


def _is_dicom(file: Path) -> bool:
    if file.suffix.lower() == ".dcm":
        return True
    with file.open("rb") as content:
        content.seek(_DICOM_PREAMBLE)
        return content.read(len(_DICOM_LETTERS)) == _DICOM_LETTERS


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


def _check_all_slices_are_read(folder: Path, series: Sequence[str]) -> None:
    """Raise an error if the folder holds a DICOM file that is not part of the series.

    GDCM leaves out files that it cannot read. If that is the first or the last slice, there is no
    gap between the others.
    """
    names = {Path(file).name for file in series}
    endings = {_ending_of_slice(Path(file)) for file in series}
    for file in sorted(folder.iterdir()):
        is_other = file.name in names or file.name in _NOT_SLICES or file.name.startswith(".")
        if is_other or not file.is_file():
            continue
        could_be_cut = file.stat().st_size <= _DICOM_PREAMBLE + len(_DICOM_LETTERS)
        if _is_dicom(file) or (could_be_cut and _ending_of_slice(file) in endings):
            raise UserError(
                f"{file} is damaged or no slice of the series in its folder: "
                "export the series again, or remove the file if it is not a part of the scan."
            )


def _ending_of_slice(file: Path) -> str:
    """The ending of a file name; empty for names such as 1.2.840.17, which have numbers only."""
    return "" if file.suffix[1:].isdigit() else file.suffix.lower()


def _check_slices_match(files: Sequence[str], slices: Sequence[LazyImage]) -> None:
    """Raise an error if a slice differs from the first in size, pixel spacing or orientation."""
    first = slices[0]
    for file, single in zip(files, slices, strict=True):
        if single.shape != first.shape:
            raise _different_slice(file, "size")
        if not np.allclose(single.affine[:3, :2], first.affine[:3, :2], rtol=0, atol=1e-3):
            raise _different_slice(file, "pixel spacing or orientation")


def _different_slice(file: str, difference: str) -> UserError:
    return UserError(
        f"{file} has another {difference} than the first slice of its series: "
        "keep one series in each folder, or export it again."
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


def _series_affine(files: Sequence[str], slices: Sequence[LazyImage]) -> Affine:
    """The affine of the first slice, with the mean step between slices as its third column.

    ITK would not report a missing slice; it would increase the spacing.
    """
    affine = slices[0].affine.copy()
    positions = [single.affine[:3, 3] for single in slices]
    steps = np.diff(positions, axis=0)
    if not steps.any():  # no slice has a position, as in secondary captures
        return affine
    typical_step = np.median(steps, axis=0)
    deviations = np.linalg.norm(steps - typical_step, axis=1)
    if deviations.max() > _UNEVEN_SLICES * np.linalg.norm(typical_step):
        slice_after_gap = files[int(deviations.argmax()) + 1]
        raise UserError(
            f"{slice_after_gap} is at another distance from the slice before it than the other "
            "slices: export the series again, without missing or duplicate slices."
        )
    affine[:3, 2] = steps.mean(axis=0)
    return affine


def _bytes_per_value(reader: "SimpleITK.ImageFileReader") -> int:
    """The bytes of one component of a voxel as stored."""
    import SimpleITK

    single_voxel = SimpleITK.Image([1] * reader.GetDimension(), reader.GetPixelID())
    return int(single_voxel.GetSizeOfPixelComponent())


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
