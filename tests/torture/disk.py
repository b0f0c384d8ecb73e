"""A disk that loses what was not synced: what a power cut would leave of a folder.

It is told of every call that changes the folder, counts them, and can end the process at one of
them. Linux only: it finds the file behind a descriptor in /proc.
"""

import builtins
import io
import os
import pickle
import signal
import stat
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

Contents = dict[str, bytes | None]
"""Relative paths and contents of files; None for folders."""

NAME_CALLS = ("replace", "rename", "mkdir", "unlink", "remove", "rmdir")


class End(Enum):
    """How a process is ended."""

    KILL = "kill"
    """What was written stays: the operating system lives on."""
    DATA_LOST = "power cut, data lost"
    """Every file has its name, and the content that it had at its last sync, or none."""
    NAMES_LOST = "power cut, names lost"
    """Every folder has the names that it had at its last sync."""


class Entry(NamedTuple):
    """What a name in a folder stands for."""

    inode: int
    is_folder: bool


class Disk:
    """What has reached the disk, of all that is in one folder."""

    def __init__(self, root: Path, end: End, end_at: int, report: Path):
        """End this process at change number `end_at`, counted from 1, and describe the disk in
        `report`; 0 never ends it.
        """
        self.root = root
        self.end = end
        self.end_at = end_at
        self.report = report
        self.changes = 0
        self.data: dict[int, bytes] = {}
        self.names: dict[int, dict[str, Entry]] = {}
        self.held: list[int] = []
        """Open descriptors: without them the system would use the numbers of inodes again."""
        self._sync = os.fsync
        self._kill = os.kill
        self._open = os.open
        for path in [root, *root.rglob("*")]:
            self._hold(path)

    def watch(self) -> None:
        """Put this disk between the process and the operating system."""
        os.fsync = self._watched_sync
        for name in NAME_CALLS:
            setattr(os, name, self._watched(getattr(os, name)))
        builtins.open = io.open = self._watched_open(io.open)

    def contents_after(self, end: End) -> Contents:
        """What is in the folder after the process, or the machine, has ended now."""
        if end is End.NAMES_LOST:
            return self._durable(self.root.stat().st_ino, "")
        contents: Contents = {}
        for path in self.root.rglob("*"):
            name = str(path.relative_to(self.root))
            if path.is_dir():
                contents[name] = None
            else:
                contents[name] = self.data.get(path.stat().st_ino, b"")
        return contents

    def cut(self) -> None:
        """Write down what is left after a power cut."""
        if self.end is not End.KILL:
            self.report.write_bytes(pickle.dumps(self.contents_after(self.end)))

    def _durable(self, folder: int, prefix: str) -> Contents:
        contents: Contents = {}
        for name, entry in self.names.get(folder, {}).items():
            path = prefix + name
            if entry.is_folder:
                contents[path] = None
                contents |= self._durable(entry.inode, f"{path}/")
            else:
                contents[path] = self.data.get(entry.inode, b"")
        return contents

    def _change(self, *paths: Any) -> None:
        """Count a change; end the process if it is the one."""
        if not any(self._is_inside(path) for path in paths):
            return
        self.changes += 1
        if self.changes == self.end_at:
            self.end_at = 0
            self.cut()
            self._kill(os.getpid(), signal.SIGKILL)

    def _is_inside(self, path: Any) -> bool:
        if not isinstance(path, str | os.PathLike):
            return False
        return Path(path).absolute().is_relative_to(self.root)

    def _watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            self._change(*arguments)
            return call(*arguments, **options)

        return watched

    def _watched_open(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if set(mode) & set("wax"):
                self._change(file)
            return call(file, mode, *arguments, **options)

        return watched

    def _watched_sync(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        self._change(path)
        self._sync(descriptor)
        if self._is_inside(path):
            self._hold(path)

    def _hold(self, path: Path) -> None:
        """Take a file's content, or the names in a folder, for durable."""
        descriptor = self._open(path, os.O_RDONLY)
        self.held.append(descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            entries = {}
            for entry in os.scandir(path):
                entries[entry.name] = Entry(entry.inode(), entry.is_dir())
            self.names[status.st_ino] = entries
        else:
            size = status.st_size
            self.data[status.st_ino] = os.pread(descriptor, size, 0)


def restore(root: Path, contents: Contents) -> None:
    """Make a folder that holds exactly this."""
    for name, content in contents.items():
        path = root / name
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
