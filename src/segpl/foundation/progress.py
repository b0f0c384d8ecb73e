"""Progress of long work on standard error: a bar in a terminal, plain lines elsewhere."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import track as rich_track

from segpl.foundation.processes import is_first

T = TypeVar("T")

console = Console(
    stderr=True,
    highlight=False,
    soft_wrap=True,
    markup=False,
    quiet=not is_first(),
)


@contextmanager
def silenced() -> Iterator[None]:
    """Show nothing on the console, and no progress bar, inside this block."""
    before = console.quiet
    console.quiet = True
    try:
        yield
    finally:
        console.quiet = before


def track(items: Sequence[T], description: str) -> Iterable[T]:
    """Iterate over `items` with a progress bar, which disappears at the end.

    Where standard error is not a terminal nothing is shown.
    """
    silent = not console.is_terminal
    title = escape(description)  # a case may be called [/x]
    return rich_track(items, title, console=console, transient=True, disable=silent)


def format_duration(seconds: float) -> str:
    """A duration in seconds, minutes or hours: `89 s`, `10 min`, `2.0 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
