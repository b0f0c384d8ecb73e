"""Counts and lists in sentences."""

from collections.abc import Sequence


def plural(count: int, noun: str) -> str:
    """A count with its noun: 1 test subject, 2 test subjects."""
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun}s"


def verb(count: int, singular: str, several: str) -> str:
    """The form that agrees with a count: 1 run has, 2 runs have."""
    return singular if count == 1 else several


def listed(names: Sequence[str]) -> str:
    """Names joined as in a sentence: a; a and b; a, b and c."""
    if len(names) < 2:
        return "".join(names)
    all_but_last = ", ".join(names[:-1])
    return f"{all_but_last} and {names[-1]}"
