"""A setting that was derived from the data."""

from typing import Any, NamedTuple


class Planned(NamedTuple):
    """A setting and why it is so."""

    value: Any
    why: str
