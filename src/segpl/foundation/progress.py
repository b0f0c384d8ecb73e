"""Progress of long work on standard error: a bar in a terminal, plain lines elsewhere."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import track as rich_track

from segpl.foundation.processes import is_first

T = TypeVar("T")

console = Console(stderr=True, highlight=False, soft_wrap=True, quiet=not is_first())


def track(items: Sequence[T], description: str) -> Iterable[T]:
    """The items one by one, with a bar that goes away at the end; silent where nobody watches."""
    return rich_track(
        items, description, console=console, transient=True, disable=not console.is_terminal
    )


def in_words(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
