"""Folders that one process at a time may write to."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from segpl.foundation.errors import UserError
from segpl.foundation.files import make_folder

LOCK_FILE = ".lock"
"""It stays in the folder. Whether it is locked is known to the operating system alone."""
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP)
"""What file systems without locks answer, such as some network disks."""
AT_ONCE = 0.0
FOR_EVER = -1.0


@contextmanager
def exclusive_use(folder: Path, wait: float = AT_ONCE) -> Iterator[None]:
    """Make and lock a folder.

    If another process holds the lock for longer than `wait` seconds, a `UserError` says so. The
    system releases the lock when a process ends, however it ends. A process may lock a folder again
    that it has locked. On a disk without locks nothing is locked.
    """
    is_new = not folder.exists()
    # One object for each folder, which counts how often this process has locked it.
    lock = FileLock(folder / LOCK_FILE, is_singleton=True, thread_local=False)
    try:
        make_folder(folder)
        lock.acquire(timeout=wait)
    except Timeout:
        raise UserError(
            f"{folder} is in use by another segpl command: wait until it has ended, "
            "or choose another folder."
        ) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise UserError(
                f"{folder} cannot be written ({error.strerror}): choose another folder."
            ) from None
    try:
        yield
    finally:
        if is_new:
            _remove_if_unused(folder)
        lock.release()


def _remove_if_unused(folder: Path) -> None:
    """Remove a folder in which there is nothing but the lock."""
    if [path.name for path in folder.iterdir()] == [LOCK_FILE]:
        with suppress(OSError):  # Windows does not remove a file that is locked
            (folder / LOCK_FILE).unlink()
            folder.rmdir()
