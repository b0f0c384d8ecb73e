"""Prepared volumes on disk, from which patches are read without loading the volume.

An entry is keyed by the content of the files and by all that was done to them, so anything that changes makes a new
one. It is built under another name and renamed when it is whole: a kill leaves nothing that is trusted, and of two
processes that build the same entry the second finds the first one's.
"""

import hashlib
import json
import math
import os
import re
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from segpl.data.cases import Case, Task
from segpl.data.formats.image import split
from segpl.data.preparation import Preparation, Volume, load
from segpl.foundation.errors import UserError
from segpl.foundation.files import DRAFT, draft, write_text
from segpl.foundation.progress import console, track

VERSION = 4
"""Raise it when the same files and settings would be prepared differently."""


def default_folder() -> Path:
    """Where caches go on this machine: SEGPL_CACHE, or the user's own place for such things."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("SEGPL_CACHE") or Path(home) / "segpl")


@dataclass(frozen=True)
class Cache:
    """A folder of prepared volumes that is kept below a limit."""

    folder: Path
    limit: float = 20e9
    """Bytes; the entries that were used longest ago go first."""

    def volumes(self, cases: Sequence[Case], task: Task, preparation: Preparation) -> list[Volume]:
        """The cases, prepared now or before."""
        found: list[Volume] = []
        waiting: list[tuple[Path, Case]] = []
        built = 0

        def opened() -> list[Volume]:
            return [self._volume(entry, case, task, preparation) for entry, case in waiting]

        for case in track(cases, "Reading scans"):
            entry = self.folder / "volumes" / self._key(case, task, preparation)
            if not entry.is_dir():
                built += self._build(entry, load(case, task, preparation))
            waiting.append((entry, case))
            if (
                built > self.limit / 20
            ):  # not each time: to look through thousands of entries takes a while
                found += opened()  # first: what is open stays readable, even if its entry must go
                waiting.clear()
                self._prune(entry)
                built = 0
        # Many at once: small things that stay between large ones that go would keep the memory of those.
        found += opened()
        if built:
            self._prune(entry)
        return found

    def _volume(self, entry: Path, case: Case, task: Task, preparation: Preparation) -> Volume:
        for _ in range(3):  # another process may clear the entry away between two lines
            if not entry.is_dir():
                self._build(entry, load(case, task, preparation))
            with suppress(FileNotFoundError):
                os.utime(entry)
                return open_volume(entry, case)
        raise UserError(
            f"{self.folder} loses its entries while they are read: raise --cache-limit."
        )

    def _key(self, case: Case, task: Task, preparation: Preparation) -> str:
        files = [*case.images, *([case.label] if case.label else [])]
        parts = {
            "version": VERSION,
            "files": [self._digest(file) for file in files],
            "labelled": bool(case.label),
            "task": asdict(task),
            "preparation": asdict(preparation),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

    def _digest(self, file: Path) -> str:
        """The hash of a file's, or a folder's, content; taken again only where size or time of change differ."""
        parts, inner = parts_of(file)
        stamp = [[str(part), part.stat().st_size, part.stat().st_mtime_ns] for part in parts]
        noted = (
            self.folder / "digests" / hashlib.sha256(json.dumps(stamp).encode()).hexdigest()[:32]
        )
        if not noted.is_file():
            content = hashlib.sha256()
            for part in parts:
                content.update(part.read_bytes())
            write_text(noted, content.hexdigest())
        return f"{noted.read_text(encoding='utf-8')}#{inner}"

    def _build(self, entry: Path, volume: Volume) -> int:
        """Write an entry and return its size in bytes."""
        try:
            with draft(entry) as place:
                place.mkdir()
                write_volume(place, volume)
        except UserError:
            if not entry.is_dir():  # if it is there, another process was quicker
                raise
        return volume.x.nbytes + (volume.y.nbytes if volume.y is not None else 0)

    def _prune(self, latest: Path) -> None:
        """Remove what was used longest ago until the rest fits, and what a killed process left half built."""
        sizes, used = {}, {}
        for entry in latest.parent.iterdir():
            with suppress(FileNotFoundError):  # other processes come and go
                used[entry] = entry.stat().st_mtime
                sizes[entry] = sum(file.stat().st_size for file in entry.iterdir())
        for entry in sorted(sizes, key=lambda entry: used[entry]):
            being_built = entry.name.startswith(DRAFT) and time.time() - used[entry] < 3600
            if sum(sizes.values()) > 0.95 * self.limit and entry != latest and not being_built:
                shutil.rmtree(entry, ignore_errors=True)
                sizes.pop(entry)

    def report(self) -> None:
        """Say where the cache is and how large."""
        files = list((self.folder / "volumes").glob("*/*.npy"))
        size = sum(file.stat().st_size for file in files) / 1e9
        console.print(f"cache: {size:.2f} GB of at most {self.limit / 1e9:g} GB in {self.folder}")


def write_volume(folder: Path, volume: Volume) -> None:
    """Put a prepared volume on disk."""
    _save(folder / "x.npy", volume.x)
    if volume.y is not None:
        _save(folder / "y.npy", volume.y)


def open_volume(folder: Path, case: Case) -> Volume:
    """A volume on disk, as tensors that are read where they are looked at."""
    return Volume(
        case, _mapped(folder / "x.npy"), _mapped(folder / "y.npy") if case.label else None
    )


def parts_of(file: Path) -> tuple[list[Path], str]:
    """All files that hold an image (MHD's header has its voxels beside it), and the name of the data set inside."""
    path, inner = split(file)
    if path.is_dir():
        return sorted(part for part in path.iterdir() if part.is_file()), inner
    if path.suffix.lower() not in (".mhd", ".nhdr"):
        return [path], inner
    named = re.search(
        r"^(?:ElementDataFile\s*=|data ?file:)\s*(\S.*?)\s*$",
        path.read_text(errors="replace"),
        re.M | re.I,
    )
    beside = {
        path,
        *path.parent.glob(f"{path.stem}.*"),
        *([path.parent / named[1]] if named else []),
    }
    return sorted(part for part in beside if part.is_file()), inner


def _save(file: Path, tensor: torch.Tensor) -> None:
    """Slice by slice: a 2D patch is then a piece of the file, and not a voxel of each of its pages."""
    np.save(file, tensor.permute(0, 3, 1, 2).contiguous().numpy())


def _mapped(file: Path) -> torch.Tensor:
    """A tensor whose numbers stay on disk until they are asked for (copy on write: the file is never changed).

    NumPy's own mapping would keep the file open, and of those a process may have a thousand.
    """
    with file.open("rb") as stream:
        np.lib.format.read_magic(stream)
        shape, _, kind = np.lib.format.read_array_header_1_0(stream)
        before = stream.tell() // kind.itemsize  # the header is filled up to a multiple of 64
    dtype = {"bool": torch.bool, "float32": torch.float32}[kind.name]
    numbers = torch.from_file(str(file), shared=False, size=before + math.prod(shape), dtype=dtype)
    return numbers[before:].reshape(shape).permute(0, 2, 3, 1)
