"""Runs for tests of what follows training: they need no data, and are not planned."""

from collections.abc import Sequence
from pathlib import Path

from segpl.settings.run import Run, run_from


def untrained(
    method: object = "supervised",
    patch: Sequence[int] = (32, 32),
    data: str | Path = "nowhere",
    **settings: object,
) -> Run:
    """A run with the given settings, and any settings of training."""
    values = {
        "data": str(data),
        "method": method,
        "patch": list(patch),
        "steps": 4,
        "channels": 4,
        "ratio": 1,
        "learning_rate": 0.01,
        **settings,
    }
    return run_from(values, "a test")
