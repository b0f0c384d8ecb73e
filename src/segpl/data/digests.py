"""The files that hold an image, and digests of their content."""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from segpl.data.formats.image import split_array_name
from segpl.data.formats.stored_voxels import stored_voxels
from segpl.foundation.errors import UserError
from segpl.foundation.files import write_text

VOXELS_ELSEWHERE = (".mhd", ".nhdr")
"""Endings of headers that name another file, which holds the voxels."""


@dataclass(frozen=True)
class Digests:
    """Digests of images, noted in a folder so that unchanged files are not read again."""

    folder: Path

    def of(self, file: Path) -> str:
        """The SHA-256 of an image's files, and the name of the array in them.

        It is computed again only if the name, the size or the time of change of a file differs.
        """
        files, array_name = image_files(file)
        note = self.folder / short_hash(_stamps(files))
        digest = _read_note(note)
        if digest is None:
            content = hashlib.sha256()
            for part in files:
                content.update(part.read_bytes())
            digest = content.hexdigest()
            write_text(note, digest)
        return f"{digest}#{array_name}"


def _read_note(note: Path) -> str | None:
    """A digest that was noted; None where there is none, or where a part of it was lost."""
    if not note.is_file():
        return None
    content = note.read_bytes()
    is_complete = re.fullmatch(b"[0-9a-f]{64}", content)
    return content.decode() if is_complete else None


def short_hash(text: str) -> str:
    """The first 32 hexadecimal digits of the SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _stamps(files: list[Path]) -> str:
    stamps = []
    for file in files:
        status = file.stat()
        stamps.append([str(file), status.st_size, status.st_mtime_ns])
    return json.dumps(stamps)


def image_files(file: Path) -> tuple[list[Path], str]:
    """All files that hold an image, and the name of the array in them (empty if there is none).

    A DICOM series is a folder of files, and the header of an MHD image has its voxels beside it.
    """
    path, array_name = split_array_name(file)
    if path.is_dir():
        candidates = set(path.iterdir())
    elif path.suffix.lower() in VOXELS_ELSEWHERE:
        same_name = path.parent.glob(f"{path.stem}.*")
        candidates = {path, *same_name, *_voxel_files(path)}
    else:
        return [path], array_name
    return sorted(candidate for candidate in candidates if candidate.is_file()), array_name


def _voxel_files(header: Path) -> list[Path]:
    """The files that a header names for its voxels; none if it is wrong (its reader says so)."""
    try:
        return stored_voxels(header).files
    except (OSError, UserError, ValueError):
        return []
