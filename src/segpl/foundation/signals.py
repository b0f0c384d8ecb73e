"""What SIGINT (Ctrl-C), SIGTERM and SIGHUP do: they stop the work in good order.

A stopped command ends with 128 and the number of the signal, as shells report it: 130, 143, 129.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


class Stopped(KeyboardInterrupt):
    """A signal asked this process to stop."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def stop_signals() -> list[signal.Signals]:
    """The signals that stop a command: those that this system has and that are not ignored.

    `nohup` ignores SIGHUP, and shells ignore SIGINT for commands in the background.
    """
    known = [signal.Signals[name] for name in NAMES if hasattr(signal, name)]
    return [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]


class Received:
    """Which signal has stopped a command."""

    def __init__(self) -> None:
        self.number: int | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of the stopped command; without a signal, that of Ctrl-C."""
        return 128 + (self.number or signal.SIGINT)


@contextmanager
def raising() -> Iterator[Received]:
    """Raise `Stopped` in the main thread at the first signal inside this block.

    Later signals are ignored while the block ends, so that they do not disturb what tidies up.
    """
    received = Received()

    def stop(number: int, _: FrameType | None) -> None:
        if received.number is None:
            received.number = number
            raise Stopped(number)

    before = _replace_handlers(stop)
    try:
        yield received
    finally:
        _restore_handlers(before)


class StopRequest:
    """Notes the first signal, for work that must come to a good place before it stops.

    A second Ctrl-C stops at once.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[signal.Signals, Any] = {}

    def listen(self) -> None:
        """Begin to note signals instead of what they did before."""
        self._before = _replace_handlers(self._note)

    def stop_listening(self) -> None:
        """Restore what signals did before; may be called twice."""
        _restore_handlers(self._before)
        self._before = {}

    def _note(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT and self.number == signal.SIGINT:
            raise Stopped(number)
        if self.number is None:
            self.number = number


def _replace_handlers(handler: Any) -> dict[signal.Signals, Any]:
    """Install a handler, and return those that it replaces; only the main thread can do so."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    before = {}
    for number in stop_signals():
        before[number] = signal.signal(number, handler)
    return before


def _restore_handlers(before: dict[signal.Signals, Any]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)
