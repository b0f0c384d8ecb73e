"""A setting that was derived from the data."""

from typing import Any, NamedTuple

CHOSEN = "chosen by the user"
"""The reason for a setting that the user gave."""


class Planned(NamedTuple):
    """The value of a setting and the reason for it."""

    value: Any
    why: str
