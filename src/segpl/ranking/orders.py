"""In which order: pure functions of what is known about each scan."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

Name = Literal["uncertain", "diverse"]


class Pool(NamedTuple):
    """N scans to rank beside L labelled ones."""

    names: Sequence[str]
    """Decide between scans that are equal in everything else."""
    uncertainty: Float[np.ndarray, " N"]
    disagreement: Float[np.ndarray, " N"]
    features: Float[np.ndarray, "N D"]
    labelled: Float[np.ndarray, "L D"]


Score = Callable[[Pool, Float[np.ndarray, " N"]], Float[np.ndarray, " N"]]
"""How much each scan should help, given how far it is from the nearest one that is taken: infinitely if none is."""


class Pick(NamedTuple):
    """One scan of the order."""

    scan: int
    """Its place in the pool."""
    score: float
    nearest: int | None
    """The scan before it in the order that it is nearest to; none if a labelled one is nearer, or there is none."""
    distance: float
    """To the nearest scan that is labelled or comes before it: infinite if there is none."""


def standardised(
    features: Float[np.ndarray, "N D"], labelled: Float[np.ndarray, "L D"]
) -> tuple[Float[np.ndarray, "N d"], Float[np.ndarray, "L d"]]:
    """Features such that two scans that have nothing to do with one another are about sqrt(2) apart.

    Each is counted in its deviations over all scans; one that is the same in all of them tells nothing.
    """
    both = np.concatenate([features, labelled])
    deviation = both.std(0)
    telling = deviation > 1e-6 * np.abs(both).max(0)
    scaled = (both - both.mean(0))[:, telling] / deviation[telling] / np.sqrt(max(1, telling.sum()))
    return scaled[: len(features)], scaled[len(features) :]


def novelty(pool: Pool) -> Float[np.ndarray, " N"]:
    """How far each scan is from the nearest labelled one: undefined (NaN) where no labelled one is known."""
    nearest = _from_labelled(pool)
    return np.where(np.isinf(nearest), np.nan, nearest)


def uncertain(pool: Pool, distance: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """The most uncertain first, whatever they look like."""
    return pool.uncertainty


def diverse(pool: Pool, distance: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Farthest first, weighted by doubt: of ten copies one is asked for.

    Doubt is the mean of uncertainty and disagreement, but at least half of what the scans have on average, because a
    network may be surely wrong about what it has never seen. Where nothing is taken yet, only the doubt counts.
    """
    doubt = (pool.uncertainty + pool.disagreement) / 2
    return np.maximum(doubt, doubt.mean() / 2) * np.where(np.isinf(distance), 1.0, distance)


ORDERS: dict[Name, Score] = {"uncertain": uncertain, "diverse": diverse}


def ordered(pool: Pool, count: int, score: Score) -> list[Pick]:
    """Take the scan with the highest score, again and again; the labelled scans count as taken from the beginning."""
    distance, nearest = _from_labelled(pool), np.full(len(pool.names), -1)
    left, picks = _sorted(pool), list[Pick]()
    while left and len(picks) < count:
        scores = score(pool, distance)
        scan = max(left, key=scores.__getitem__)
        before = int(nearest[scan]) if nearest[scan] >= 0 else None
        picks.append(Pick(scan, float(scores[scan]), before, float(distance[scan])))
        left.remove(scan)
        now = _distances(pool.features, pool.features[scan])
        nearest, distance = np.where(now < distance, scan, nearest), np.minimum(now, distance)
    return picks


def _sorted(pool: Pool) -> list[int]:
    """The most uncertain first, equal ones by name."""
    return sorted(
        range(len(pool.names)), key=lambda scan: (-pool.uncertainty[scan], pool.names[scan])
    )


def _from_labelled(pool: Pool) -> Float[np.ndarray, " N"]:
    rows = [_distances(pool.features, each) for each in pool.labelled]
    return np.min(rows, axis=0) if rows else np.full(len(pool.names), np.inf)


def _distances(
    features: Float[np.ndarray, "N D"], one: Float[np.ndarray, " D"]
) -> Float[np.ndarray, " N"]:
    return np.linalg.norm(features - one, axis=1)
