"""Durable writes: after a kill or a power cut there is the old version or the whole new one."""

import gzip
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from segpl.foundation.errors import UserError

if TYPE_CHECKING:
    import numpy as np

DRAFT = ".part-"
"""Prefix of the names of drafts. It hides them, and libraries still see the file's extension."""


ABANDONED_AFTER = 3600.0
"""Seconds after which a draft is taken for that of a killed process."""


@contextmanager
def draft(target: Path) -> Iterator[Path]:
    """Yield a path beside `target` to write a file or a folder to; it becomes `target` at the end.

    The content reaches the disk before the rename, and the rename before the end of this block. So
    a power cut leaves the old target or the whole new one, and after the block the new one. If the
    block or the rename fails, the draft is removed and the target stays as it was. An `OSError`
    becomes a `UserError` that names the target. A folder can only replace an empty folder.
    """
    random_part = secrets.token_hex(4)
    temporary = target.with_name(f"{DRAFT}{random_part}-{target.name}")
    try:
        make_folder(target.parent)
        yield temporary
        _sync(temporary)
        if temporary.is_dir() and target.is_dir():
            target.rmdir()  # some systems refuse to replace a folder, even an empty one
        move_file(temporary, target)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(
            f"{target} cannot be written ({reason}): make room there, or choose another folder."
        ) from error
    finally:
        _remove(temporary)


def move_file(file: Path, target: Path) -> None:
    """Give a file or a folder another name in its folder, in place of what has that name."""
    file.replace(target)
    _sync_folder(target.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, unless they exist; a power cut leaves them in place."""
    if folder.is_dir():
        return
    if not folder.parent.exists():
        make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def remove_drafts(folder: Path, depth: int, older_than: float = 0.0) -> None:
    """Remove what killed processes left half written in a folder and `depth` levels below it.

    Where other processes may be writing, as they may not in a folder that is locked, remove only
    drafts that nobody has touched for `older_than` seconds.
    """
    if not folder.is_dir():
        return
    for path in list(folder.iterdir()):
        if re.match(rf"{re.escape(DRAFT)}[0-9a-f]{{8}}-", path.name):
            if _age(path) >= older_than:
                _remove(path)
        elif depth > 0 and path.is_dir():
            remove_drafts(path, depth - 1, older_than)


def _age(path: Path) -> float:
    """Seconds since a file or folder was changed; none if it has just disappeared."""
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except FileNotFoundError:
        return 0.0


def write_bytes(file: Path, content: bytes) -> None:
    """Write a file atomically; its folder is made if it does not exist."""
    if file.is_dir():
        raise UserError(f"{file} is a folder: give the name of a file.")
    with draft(file) as temporary:
        temporary.write_bytes(content)


def write_text(file: Path, text: str) -> None:
    """Write a UTF-8 text file atomically, with the line ends that `text` has.

    Bytes of file names that are not UTF-8 are written as they are.
    """
    write_bytes(file, text.encode(errors="surrogateescape"))


def write_nifti(file: Path, voxels: "np.ndarray", affine: "np.ndarray") -> None:
    """Write a compressed NIfTI image in millimetres.

    There is no time stamp in it, so equal voxels give equal bytes.
    """
    # nibabel is slow to import, and `segpl phantom --help` imports this module.
    from nibabel.nifti1 import Nifti1Image

    image = Nifti1Image(voxels, affine)
    image.header.set_xyzt_units("mm")
    content = gzip.compress(image.to_bytes(), compresslevel=1, mtime=0)
    write_bytes(file, content)


def file_name(name: str) -> str:
    """A case's name as a safe file name: characters that a file system forbids become %2F etc."""
    forbidden = r'[/\\:*?"<>|%\x00-\x1f]|^\.'
    return re.sub(forbidden, _percent_encoded, name)


def _percent_encoded(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


def _sync(path: Path) -> None:
    """Wait until a file, or a folder with all that is in it, is on the disk."""
    if path.is_dir():
        for member in path.iterdir():
            _sync(member)
        _sync_folder(path)
        return
    with path.open("r+b") as stream:  # Windows can only sync files that are open for writing
        os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, if the system supports it."""
    with suppress(OSError):  # Windows cannot open folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove(path: Path) -> None:
    """Remove a draft if it still exists; on a read-only disk there is nothing to remove."""
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
