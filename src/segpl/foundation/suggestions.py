"""Suggestions for a misspelt name."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggest(word: object, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` with the most similar known name, or nothing if none is similar."""
    matches = get_close_matches(str(word), list(known), n=1)
    if not matches:
        return ""
    return f" Did you mean {matches[0]!r}?"
