"""Prepared volumes on disk; training reads patches without loading whole volumes.

The key of an entry is a digest of the case's files and of everything done to them, so any change
makes a new entry. An entry is built under another name and renamed when it is complete: a killed
process leaves nothing that is trusted, and of two processes that build the same entry the second
uses that of the first. An entry that has lost a part is built again.
"""

import json
import math
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from segpl.data.cases import Case, Task
from segpl.data.digests import Digests, short_hash
from segpl.data.preparation import Preparation, Volume, load
from segpl.foundation.errors import UserError
from segpl.foundation.files import ABANDONED_AFTER, DRAFT, draft, remove_drafts
from segpl.foundation.progress import console, track

VERSION = 4
"""Raise it when the same files and settings would be prepared differently."""
ATTEMPTS = 3
"""How often an entry is opened that other processes may remove at the same time."""
FILES = ("x.npy", "y.npy")
"""The image and, of labelled cases, the label."""
IGNORED_FILE = "ignored.npy"
"""The voxels of the label that do not count, if there are any."""
TORCH_TYPES = {"bool": torch.bool, "float32": torch.float32}


def default_folder() -> Path:
    """The cache folder of this machine: SEGPL_CACHE, or segpl in the user's folder for caches."""
    chosen = os.environ.get("SEGPL_CACHE")
    if chosen:
        return Path(chosen)
    user_caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user_caches) / "segpl"


class Entry(NamedTuple):
    """A prepared case and its folder in the cache."""

    folder: Path
    case: Case
    task: Task
    preparation: Preparation

    def build_if_missing(self) -> int:
        """Prepare and write the case unless it is in the cache; returns the bytes written."""
        if self.folder.is_dir():
            if self.is_complete():
                return 0
            shutil.rmtree(self.folder, ignore_errors=True)
        volume = load(self.case, self.task, self.preparation)
        try:
            with draft(self.folder) as incomplete:
                incomplete.mkdir()
                write_volume(incomplete, volume)
        except UserError:
            built_by_another_process = self.folder.is_dir()
            if not built_by_another_process:
                raise
        return _bytes(volume)

    def is_complete(self) -> bool:
        """Whether the files have their full lengths."""
        files = FILES if self.case.label else FILES[:1]
        return all(_has_full_length(self.folder / name) for name in files)

    def open(self) -> Volume:
        """The volume, marked as used now."""
        os.utime(self.folder)
        return open_volume(self.folder, self.case)


class StoredEntry(NamedTuple):
    """The folder of an entry as found on disk."""

    folder: Path
    bytes: int
    used: float
    """When it was last used, in seconds since the epoch."""

    def is_being_built(self) -> bool:
        """Whether another process may still be writing it."""
        is_incomplete = self.folder.name.startswith(DRAFT)
        return is_incomplete and time.time() - self.used < ABANDONED_AFTER


@dataclass(frozen=True)
class Cache:
    """A folder of prepared volumes that is kept below a limit."""

    folder: Path
    limit: float = 20e9
    """Bytes; the entries that were used longest ago are removed first."""

    def volumes(self, cases: Sequence[Case], task: Task, preparation: Preparation) -> list[Volume]:
        """The prepared cases, from the cache or prepared now."""
        volumes: list[Volume] = []
        unopened: list[Entry] = []
        bytes_written = 0
        for case in track(cases, "Reading scans"):
            entry = self._entry(case, task, preparation)
            bytes_written += entry.build_if_missing()
            unopened.append(entry)
            # Not after every entry, because listing thousands of entries takes time.
            if bytes_written > self.limit / 20:
                # Opened before pruning: an open volume stays readable after its entry is removed.
                volumes += self._open(unopened)
                unopened.clear()
                self._prune(entry)
                bytes_written = 0
        # Opened together at the end: small objects made between the large arrays of `load` would
        # fragment the memory.
        volumes += self._open(unopened)
        if bytes_written:
            remove_drafts(self.folder, depth=1, older_than=ABANDONED_AFTER)
            self._prune(entry)
        return volumes

    def report(self) -> None:
        """Print where the cache is and how large."""
        files = (self.folder / "volumes").glob("*/*.npy")
        gigabytes = sum(file.stat().st_size for file in files) / 1e9
        limit = self.limit / 1e9
        console.print(f"cache: {gigabytes:.2f} GB of at most {limit:g} GB in {self.folder}")

    def _entry(self, case: Case, task: Task, preparation: Preparation) -> Entry:
        """The entry of a case, whether it is on disk or not."""
        digests = Digests(self.folder / "digests")
        files = list(case.images)
        if case.label:
            files.append(case.label)
        content = {
            "version": VERSION,
            "files": [digests.of(file) for file in files],
            "labelled": bool(case.label),
            "task": _task_key(task),
            "preparation": asdict(preparation),
        }
        key = short_hash(json.dumps(content, sort_keys=True))
        return Entry(self.folder / "volumes" / key, case, task, preparation)

    def _open(self, entries: Sequence[Entry]) -> list[Volume]:
        return [self._open_or_rebuild(entry) for entry in entries]

    def _open_or_rebuild(self, entry: Entry) -> Volume:
        """Open an entry that another process may remove at any time."""
        for _ in range(ATTEMPTS):
            entry.build_if_missing()
            with suppress(FileNotFoundError):
                return entry.open()
        raise UserError(
            f"{self.folder} loses entries before they can be read: raise --cache-limit."
        )

    def _prune(self, latest: Entry) -> None:
        """Remove entries until the rest fits, those used longest ago first, but never `latest`."""
        stored_entries = _list_entries(self.folder / "volumes")
        total = sum(stored.bytes for stored in stored_entries)
        for stored in sorted(stored_entries, key=_last_used):
            if total <= 0.95 * self.limit:
                return
            if stored.folder != latest.folder and not stored.is_being_built():
                shutil.rmtree(stored.folder, ignore_errors=True)
                total -= stored.bytes


def _list_entries(folder: Path) -> list[StoredEntry]:
    """All entries on disk, without those that other processes remove in the meantime."""
    entries = []
    for entry in folder.iterdir():
        with suppress(FileNotFoundError):
            used = entry.stat().st_mtime
            size = sum(file.stat().st_size for file in entry.iterdir())
            entries.append(StoredEntry(entry, size, used))
    return entries


def _last_used(entry: StoredEntry) -> float:
    return entry.used


def _task_key(task: Task) -> dict[str, Any]:
    """The task; without a value to ignore it has the key of earlier versions."""
    key = asdict(task)
    if task.ignore is None:
        del key["ignore"]
    return key


def _bytes(volume: Volume) -> int:
    tensors = (volume.x, volume.y, volume.ignored)
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def write_volume(folder: Path, volume: Volume) -> None:
    """Write a prepared volume to a folder."""
    image_file, label_file = FILES
    _save(folder / image_file, volume.x)
    if volume.y is not None:
        _save(folder / label_file, volume.y)
    if volume.ignored is not None:
        _save(folder / IGNORED_FILE, volume.ignored)


def open_volume(folder: Path, case: Case) -> Volume:
    """A volume on disk, as tensors whose values are read when they are used."""
    image_file, label_file = FILES
    x = _map_file(folder / image_file)
    y = _map_file(folder / label_file) if case.label else None
    has_ignored = bool(case.label) and (folder / IGNORED_FILE).is_file()
    ignored = _map_file(folder / IGNORED_FILE) if has_ignored else None
    return Volume(case, x, y, ignored=ignored)


def _save(file: Path, tensor: torch.Tensor) -> None:
    """Save slice by slice: a 2D patch is then one piece of the file instead of many."""
    slices_first = tensor.permute(0, 3, 1, 2).contiguous()
    np.save(file, slices_first.numpy())


def _map_file(file: Path) -> torch.Tensor:
    """A tensor whose values stay on disk until they are used. Writing to it leaves the file alone.

    NumPy's own mapping would keep the file open, and a process may open only about a thousand.
    """
    shape, dtype, header_bytes = _read_header(file)
    # The header's length is a multiple of 64 bytes, so it is a whole number of values.
    header_values = header_bytes // dtype.itemsize
    values = torch.from_file(
        str(file),
        shared=False,
        size=header_values + math.prod(shape),
        dtype=TORCH_TYPES[dtype.name],
    )
    slices_first = values[header_values:].reshape(shape)
    return slices_first.permute(0, 2, 3, 1)


def _has_full_length(file: Path) -> bool:
    """Whether a file has as many bytes as its header says; false if it has no header."""
    try:
        shape, dtype, header_bytes = _read_header(file)
    except (OSError, ValueError):
        return False
    return file.stat().st_size == header_bytes + math.prod(shape) * dtype.itemsize


def _read_header(file: Path) -> tuple[tuple[int, ...], np.dtype, int]:
    """Shape and type of an array, and the number of bytes before its values."""
    with file.open("rb") as stream:
        np.lib.format.read_magic(stream)
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        return shape, dtype, stream.tell()
