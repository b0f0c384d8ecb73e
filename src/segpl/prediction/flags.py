"""Which predictions a person should look at first, and why."""

from segpl.data.likeness import Likeness
from segpl.inference.numbers import RegionNumbers

LOW_DICE = 0.8
"""Regions with a lower expected Dice are flagged: see docs/uncertainty.md."""


def reason_to_check(numbers: RegionNumbers, likeness: Likeness | None) -> str:
    """Why the prediction of a region should be looked at; empty if nothing speaks for it."""
    reasons = []
    if likeness is not None and likeness.is_unlike:
        reasons.append(f"unlike the training scans: {likeness.statistic}")
    if numbers.expected_dice < LOW_DICE:  # never true for NaN, the value of an empty mask
        reasons.append(f"expected Dice below {LOW_DICE:g}")
    return "; ".join(reasons)
