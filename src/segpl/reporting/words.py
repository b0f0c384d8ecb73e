"""Counts and lists in sentences."""

from collections.abc import Sequence


def plural(count: int, noun: str) -> str:
    """A count with its noun: 1 test subject, 2 test subjects."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def verb(count: int, singular: str, several: str) -> str:
    """The word that goes with a count: 1 run has, 2 runs have."""
    return singular if count == 1 else several


def listed(names: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
