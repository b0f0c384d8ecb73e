"""How much memory this process holds, on any system."""

from threading import Event, Thread
from types import TracebackType

import psutil

INTERVAL = 0.005
"""Seconds between two looks at the memory."""


def free() -> int:
    """Bytes that can be had now, with those that the system lends to files and takes back at once."""
    return int(psutil.virtual_memory().available)


def held() -> int:
    """Bytes that this process holds."""
    return int(psutil.Process().memory_info().rss)


def held_without_files() -> int:
    """The same without the pages of mapped files where the system tells them apart, as Linux does."""
    memory = psutil.Process().memory_info()
    return int(memory.rss - getattr(memory, "shared", 0))


class PeakMemory:
    """Watches how much memory the process holds: `bytes` is the most between start and stop.

    Systems differ in what they remember of the peak, so a thread looks 200 times a second. A shorter
    peak may be missed.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._done = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._look()
        self._done.clear()
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look once more, and watch no longer. To stop twice does no harm."""
        if self._thread is None:
            return
        self._done.set()
        self._thread.join()
        self._thread = None
        self._look()

    def __enter__(self) -> "PeakMemory":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _watch(self) -> None:
        while not self._done.wait(INTERVAL):
            self._look()

    def _look(self) -> None:
        self.bytes = max(self.bytes, held())
