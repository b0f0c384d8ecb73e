"""Files that are never seen half written: a kill leaves the old file or the new one."""

import gzip
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from segpl.foundation.errors import UserError

if TYPE_CHECKING:
    import numpy as np


def write_bytes(file: Path, content: bytes) -> None:
    """Write all of it, or nothing, under the final name."""
    if file.is_dir():
        raise UserError(f"{file} is a folder: give the name of a file.")
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}.part")  # another process may be writing the same file
    draft.write_bytes(content)
    draft.replace(file)


def write_text(file: Path, text: str) -> None:
    """The same for text."""
    write_bytes(file, text.encode())


def write_nifti(file: Path, voxels: "np.ndarray", affine: "np.ndarray") -> None:
    """A compressed NIfTI image in millimetres, without a time stamp: the same voxels are the same bytes."""
    from nibabel.nifti1 import Nifti1Image  # slow to import, and the phantoms' help needs none of it

    image = Nifti1Image(voxels, affine)
    image.header.set_xyzt_units("mm")
    write_bytes(file, gzip.compress(image.to_bytes(), compresslevel=1, mtime=0))


def file_name(name: str) -> str:
    """A case's name as a file may be called: what a file system would stumble over becomes %2F and the like."""
    return re.sub(r'[/\\:*?"<>|%\x00-\x1f]|^\.', lambda found: f"%{ord(found[0]):02X}", name)
