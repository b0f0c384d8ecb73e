"""The colours of regions, the same in every figure and file."""

COLOURS = ("#d62728", "#2ca02c", "#1f77b4", "#ff7f0e", "#9467bd")
"""Red for the whole tumour, green for its core, blue for the enhancing core, as in the paper."""

Bytes = tuple[int, int, int]
"""Red, green and blue from 0 to 255."""


def region_colour(index: int) -> str:
    """The colour of a region by its number. Colours repeat if there are more regions."""
    return COLOURS[index % len(COLOURS)]


def as_bytes(colour: str) -> Bytes:
    """A colour such as #d62728 as numbers."""
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue
