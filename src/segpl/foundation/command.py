"""The command that the user gave, for the records of what came of it. Quick to import, for `--help`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_command: ContextVar[Sequence[str]] = ContextVar("command", default=())


@contextmanager
def started_by(command: Sequence[str]) -> Iterator[None]:
    """Note the command: what is made inside this block came from it."""
    token = _command.set(command)
    try:
        yield
    finally:
        _command.reset(token)


def current_command() -> list[str]:
    """The words of the command at work, none where a program calls segpl."""
    return list(_command.get())
