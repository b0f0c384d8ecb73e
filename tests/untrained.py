"""Runs for tests of what comes after training: no data, no plan, and settings of training that do not matter."""

from collections.abc import Sequence
from pathlib import Path

from segpl.settings.run import Run, run_from


def untrained(
    method: object = "supervised",
    patch: Sequence[int] = (32, 32),
    data: str | Path = "nowhere",
    **settings: object,
) -> Run:
    """A run that nobody has planned."""
    given = {"steps": 4, "channels": 4, "ratio": 1, "learning_rate": 0.01, **settings}
    return run_from({"data": str(data), "method": method, "patch": list(patch), **given}, "a test")
