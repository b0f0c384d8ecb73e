"""How much memory the machine has left and this process uses, on any operating system."""

from threading import Event, Thread

import psutil

INTERVAL = 0.005
"""Seconds between two measurements of the peak."""


def available_bytes() -> int:
    """Memory that a program can still get, including file caches that the system can drop."""
    return int(psutil.virtual_memory().available)


def resident_bytes() -> int:
    """Memory that this process occupies."""
    return int(psutil.Process().memory_info().rss)


def resident_bytes_without_files() -> int:
    """Memory that this process occupies, without pages of mapped files.

    Only some systems, such as Linux, report those pages; elsewhere they are included.
    """
    memory = psutil.Process().memory_info()
    shared = getattr(memory, "shared", 0)
    return int(memory.rss - shared)


class PeakMemory:
    """Measures the peak memory of this process: `bytes` is the maximum between start and stop.

    Operating systems record peaks in different ways, so a thread measures 200 times a second
    instead. It can miss a shorter peak.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._stopped = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin to measure."""
        self._measure()
        self._stopped.clear()
        self._thread = Thread(target=self._measure_repeatedly, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Measure a last time and stop. A second call has no effect."""
        if self._thread is None:
            return
        self._stopped.set()
        self._thread.join()
        self._thread = None
        self._measure()

    def __enter__(self) -> "PeakMemory":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _measure_repeatedly(self) -> None:
        while not self._stopped.wait(INTERVAL):
            self._measure()

    def _measure(self) -> None:
        self.bytes = max(self.bytes, resident_bytes())
