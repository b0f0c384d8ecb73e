"""Why a scan stands where it stands, in words."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from segpl.ranking.looking import Look
from segpl.ranking.orders import Pick

ALIKE = 0.35
"""Scans that are nearer than this are alike: a quarter of the distance of two that have nothing in common."""
SHARE = 1 / 3
"""A number stands out if it is among this share of the highest."""


def reasons(
    picks: Sequence[Pick],
    names: Sequence[str],
    looks: Sequence[Look],
    novelty: Float[np.ndarray, " N"],
) -> list[str]:
    """A few words for each pick: what stands out among all scans, and what else it is like."""
    outstanding = {
        "uncertain": _stands_out(np.array([look.uncertainty for look in looks])),
        "unlike the labelled scans": _stands_out(novelty) & ~(novelty < ALIKE),
        "disagrees with itself when turned or re-contrasted": _stands_out(
            np.array([look.disagreement for look in looks])
        ),
    }
    texts = []
    for scan, _, nearest, distance in picks:
        words = [text for text, which in outstanding.items() if which[scan]]
        words += [f"finds no {region}" for region in looks[scan].missing]
        if distance < ALIKE:
            words.append(
                "like a labelled scan"
                if nearest is None
                else f"like {names[nearest]}, which comes before it"
            )
        texts.append("; ".join(words) or "nothing stands out")
    return texts


def _stands_out(values: Float[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
    """Undefined values and zeros never do."""
    return (
        (values > 0) & (values >= np.nanquantile(values, 1 - SHARE))
        if np.isfinite(values).any()
        else values > 0
    )
