"""The command line that is being executed, for provenance records. Imports nothing slow."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_command: ContextVar[Sequence[str]] = ContextVar("command", default=())


@contextmanager
def started_by(command: Sequence[str]) -> Iterator[None]:
    """Record `command` as the origin of everything that is made inside this block."""
    token = _command.set(command)
    try:
        yield
    finally:
        _command.reset(token)


def current_command() -> list[str]:
    """The arguments of the current command; empty when a Python program calls segpl."""
    return list(_command.get())
