"""A folder that another process is using."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from segpl.foundation.locks import exclusive_use


@contextmanager
def folder_in_use(folder: Path) -> Iterator[None]:
    """Let another process lock a folder; it is killed at the end of the block."""
    ready, announce = os.pipe()
    process = os.fork()
    if process == 0:
        with exclusive_use(folder):
            os.write(announce, b"x")
            time.sleep(600)
    os.read(ready, 1)
    try:
        yield
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
