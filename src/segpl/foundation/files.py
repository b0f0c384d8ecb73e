"""Files and folders that are never seen half written: a kill leaves the old one or the new one."""

import gzip
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from segpl.foundation.errors import UserError

if TYPE_CHECKING:
    import numpy as np

DRAFT = ".part-"
"""How the names of drafts begin. They are hidden, and keep the ending by which libraries choose a
format."""


@contextmanager
def draft(target: Path) -> Iterator[Path]:
    """Yield a path beside `target` to write a file or a folder to; it becomes `target` at the end.

    The content reaches the disk before the rename, so a power cut leaves the old target or the whole
    new one. If the block or the rename fails, the draft is removed and the target stays as it was.
    An `OSError` becomes a `UserError` that names the target. A folder can replace an empty one only.
    """
    place = target.with_name(f"{DRAFT}{secrets.token_hex(4)}-{target.name}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield place
        _sync(place)
        if place.is_dir() and target.is_dir():
            target.rmdir()  # not every system replaces a folder, not even an empty one
        place.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(
            f"{target} cannot be written ({reason}): make room there, or choose another place."
        ) from error
    finally:
        _remove(place)


def write_bytes(file: Path, content: bytes) -> None:
    """Write a file as a whole, and its folder if need be."""
    if file.is_dir():
        raise UserError(f"{file} is a folder: give the name of a file.")
    with draft(file) as place:
        place.write_bytes(content)


def write_text(file: Path, text: str) -> None:
    """Write a text file in UTF-8 as a whole, with line ends as they are in `text`."""
    write_bytes(file, text.encode())


def write_nifti(file: Path, voxels: "np.ndarray", affine: "np.ndarray") -> None:
    """A compressed NIfTI image in millimetres, without a time stamp: the same voxels are the same bytes."""
    from nibabel.nifti1 import (
        Nifti1Image,
    )  # slow to import, and the phantoms' help needs none of it

    image = Nifti1Image(voxels, affine)
    image.header.set_xyzt_units("mm")
    write_bytes(file, gzip.compress(image.to_bytes(), compresslevel=1, mtime=0))


def file_name(name: str) -> str:
    """A case's name as a file may be called: what a file system would stumble over becomes %2F and the like."""
    return re.sub(r'[/\\:*?"<>|%\x00-\x1f]|^\.', lambda found: f"%{ord(found[0]):02X}", name)


def _sync(place: Path) -> None:
    """Wait until a file, or all files of a folder, are on the disk."""
    files = [file for file in place.rglob("*") if file.is_file()] if place.is_dir() else [place]
    for file in files:
        with file.open("r+b") as stream:  # Windows syncs only what may be written
            os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can do so."""
    with suppress(OSError):  # Windows opens no folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove(place: Path) -> None:
    """Remove a draft that is still there; where nothing can be written, nothing can be removed."""
    with suppress(OSError):
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
