"""The colours of regions, for figures."""

from segpl.foundation.colours import COLOURS

__all__ = ["COLOURS"]
