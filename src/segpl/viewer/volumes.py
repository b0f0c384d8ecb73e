"""The files that the page shows: channels of a scan and its label, as NIfTI.

A channel that is stored as a NIfTI file of its own is sent as it is, so a large scan costs the
server no memory. Everything else is converted once, to a file in a temporary folder.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, prod
from pathlib import Path
from threading import Lock

import nibabel
import numpy as np
from jaxtyping import Shaped, UInt8

from segpl.data.cases import Case, Region
from segpl.data.digests import image_files
from segpl.data.formats import read_affine, read_grid, read_image
from segpl.data.formats.image import Grid, Image, split_array_name
from segpl.data.frames import Frame
from segpl.data.saving import save_nifti
from segpl.data.scans import nifti_header
from segpl.foundation.errors import UserError

LARGE = 2**24
"""Voxels of a scan that is first shown at a lower resolution."""
PREVIEW = 2**21
"""Voxels of that first view, about."""
PLANES_AT_ONCE = 16
"""Planes of a label that are converted together, to save memory."""


class OutsideError(Exception):
    """A file that is outside the folders the viewer was given."""


@dataclass(frozen=True)
class Folders:
    """The folders that files may be sent from, with all symbolic links resolved."""

    roots: tuple[Path, ...]

    @classmethod
    def of(cls, folders: Iterable[Path]) -> "Folders":
        """These folders, wherever they really are."""
        return cls(tuple(folder.resolve() for folder in folders))

    def check(self, image: Path) -> Path:
        """The image with its links resolved; an error if one of its files is outside.

        A DICOM series is a folder of files, each of which may be a link; an HDF5 file may be
        followed by the name of an array.
        """
        files, array_name = image_files(image)
        path, _ = split_array_name(image)
        for file in (path, *files):
            if not any(file.resolve().is_relative_to(root) for root in self.roots):
                raise OutsideError(
                    f"{file} is, or leads to, a file outside the data folder: copy it there."
                )
        resolved = path.resolve()
        return Path(f"{resolved}#{array_name}") if array_name else resolved


class Volumes:
    """The NIfTI files of scans; those that are made are kept until the server ends."""

    def __init__(self, folders: Folders, cache: Path, regions: tuple[Region, ...]):
        self.folders = folders
        self.cache = cache
        self.regions = regions
        self._one_at_a_time = Lock()
        """Two requests must not convert the same file, nor hold two large scans in memory."""

    def grid(self, case: Case) -> Grid:
        """Shape, spacing and orientation of the scan."""
        return read_grid(self.folders.check(case.images[0]))

    def is_large(self, case: Case) -> bool:
        """Whether the scan is first shown at a lower resolution."""
        return prod(self.grid(case).shape) > LARGE

    def channel(self, number: int, case: Case, channel: int) -> Path:
        """One channel of a scan; `number` is that of the scan in the list."""
        stored = self._stored_channel(case, channel)
        if stored is not None:
            return stored
        file = self.cache / f"{number}-channel-{channel}.nii"
        with self._one_at_a_time:
            if not file.is_file():
                self._convert_channel(case, channel, file)
        return file

    def preview(self, number: int, case: Case, channel: int) -> Path:
        """One channel with every Nth voxel along each axis."""
        source = self.channel(number, case, channel)
        file = self.cache / f"{number}-preview-{channel}.nii"
        with self._one_at_a_time:
            if not file.is_file():
                _write_preview(source, file)
        return file

    def label(self, number: int, case: Case, label: Path) -> Path:
        """A label with the number of the region at each voxel, counted from 1; 0 elsewhere."""
        stored = self.folders.check(label)
        changed = stored.stat().st_mtime_ns
        file = self.cache / f"{number}-label-{changed}.nii"
        with self._one_at_a_time:
            if not file.is_file():
                image = read_image(stored)
                if image.values.shape[1:] != self.grid(case).shape:
                    raise UserError(
                        f"{label} has another grid than its scan: segpl doctor says more."
                    )
                frame = self.frame(case)
                save_nifti(file, region_numbers(image.values[0], self.regions), frame)
        return file

    def frame(self, case: Case) -> Frame:
        """The grid that the masks of a scan are written on: the scan's own."""
        stored = self.folders.check(case.images[0])
        return Frame(
            shape=read_grid(stored).shape,
            affine=read_affine(stored),
            orientation=None,
            header=nifti_header(stored),
        )

    def _stored_channel(self, case: Case, channel: int) -> Path | None:
        """The file of a channel, if that is NIfTI and holds nothing else."""
        if channel >= len(case.images):
            return None
        file = self.folders.check(case.images[channel])
        if not _is_nifti(file):
            return None
        axes = nibabel.load(file).shape
        return file if len(axes) == 3 else None

    def _convert_channel(self, case: Case, channel: int, file: Path) -> None:
        before = 0
        for image_file in case.images:
            image = read_image(self.folders.check(image_file))
            if channel - before < len(image.values):
                values = _as_shown(image.values[channel - before])
                save_nifti(file, values, _frame_of(image))
                return
            before += len(image.values)
        raise UserError(f"{case.images[0]} has {before} channels: segpl doctor says more.")


def _frame_of(image: Image) -> Frame:
    return Frame(image.values.shape[1:], image.affine, orientation=None)


def _is_nifti(file: Path) -> bool:
    return file.name.lower().endswith((".nii", ".nii.gz"))


def _as_shown(values: Shaped[np.ndarray, "X Y Z"]) -> Shaped[np.ndarray, "X Y Z"]:
    """Values of a type that the browser knows: 8 or 16 bits as they are, all others as floats."""
    if values.dtype == bool:
        return values.astype(np.uint8)
    if values.dtype.itemsize <= 2 and values.dtype.kind in "iu":
        return values
    return values.astype(np.float32)


def _write_preview(source: Path, file: Path) -> None:
    """Write every Nth voxel. Of a compressed file, no more than one plane is in memory."""
    image = nibabel.load(source)
    step = ceil((prod(image.shape) / PREVIEW) ** (1 / 3))
    smaller = image.slicer[::step, ::step, ::step]
    values = np.asanyarray(smaller.dataobj)
    preview = nibabel.Nifti1Image(_as_shown(values), smaller.affine)
    preview.header.set_xyzt_units("mm")
    nibabel.save(preview, file)


def region_numbers(
    values: Shaped[np.ndarray, "X Y Z"], regions: tuple[Region, ...]
) -> UInt8[np.ndarray, "X Y Z"]:
    """The number of the region at each voxel, counted from 1; a later region covers an earlier."""
    numbers = np.zeros(values.shape, dtype=np.uint8)
    for start in range(0, values.shape[2], PLANES_AT_ONCE):
        planes = values[..., start : start + PLANES_AT_ONCE]
        for number, region in enumerate(regions, start=1):
            numbers[..., start : start + PLANES_AT_ONCE][np.isin(planes, region.values)] = number
    return numbers
