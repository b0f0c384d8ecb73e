"""The order of the scans: pure functions of the numbers of each scan."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

OrderName = Literal["uncertain", "diverse"]
PerScan = Float[np.ndarray, " N"]
"""One number for each scan to rank."""


class Pool(NamedTuple):
    """N scans to rank and L labelled ones."""

    names: Sequence[str]
    """Break ties between scans that are equal in everything else."""
    uncertainty: PerScan
    disagreement: PerScan
    features: Float[np.ndarray, "N D"]
    labelled: Float[np.ndarray, "L D"]


Score = Callable[[Pool, PerScan], PerScan]
"""How useful each scan is, given its distance to the nearest selected scan.

The distance is infinite if no scan is selected.
"""


class Pick(NamedTuple):
    """One scan of the order."""

    scan: int
    """Its index in the pool."""
    score: float
    nearest: int | None
    """The nearest scan picked earlier; none if there is none, or a labelled one is as near."""
    distance: float
    """To the nearest scan that is labelled or was picked earlier; infinite if there is none."""


def standardised(
    features: Float[np.ndarray, "N D"],
    labelled: Float[np.ndarray, "L D"],
) -> tuple[Float[np.ndarray, "N d"], Float[np.ndarray, "L d"]]:
    """Features scaled so that two unrelated scans are about sqrt(2) apart.

    Each feature is divided by its standard deviation over all scans. Constant features are removed.
    """
    everything = np.concatenate([features, labelled])
    mean = everything.mean(0)
    deviation = everything.std(0)
    largest = np.abs(everything).max(0)
    varies = deviation > 1e-6 * largest
    centred = (everything - mean)[:, varies]
    dimensions = max(1, varies.sum())
    scaled = centred / deviation[varies] / np.sqrt(dimensions)
    to_rank = len(features)
    return scaled[:to_rank], scaled[to_rank:]


def novelty(pool: Pool) -> PerScan:
    """The distance of each scan to the nearest labelled one; NaN where there is no labelled one."""
    distance = _distance_to_labelled(pool)
    return np.where(np.isinf(distance), np.nan, distance)


def uncertain(pool: Pool, distance: PerScan) -> PerScan:
    """The most uncertain scans first, whatever they look like."""
    return pool.uncertainty


def diverse(pool: Pool, distance: PerScan) -> PerScan:
    """Doubt times distance, so that of ten copies only one comes early.

    Doubt is the mean of uncertainty and disagreement. It is at least half of its mean over all
    scans, because a network may be confidently wrong about what it has never seen. Where no scan is
    selected yet, only the doubt counts.
    """
    doubt = (pool.uncertainty + pool.disagreement) / 2
    least_doubt = doubt.mean() / 2
    is_first = np.isinf(distance)
    return np.maximum(doubt, least_doubt) * np.where(is_first, 1.0, distance)


ORDERS: dict[OrderName, Score] = {"uncertain": uncertain, "diverse": diverse}


def pick_scans(pool: Pool, count: int, score: Score) -> list[Pick]:
    """Pick the scan with the highest score again and again, up to `count` of them.

    Labelled scans count as selected from the start.
    """
    distance = _distance_to_labelled(pool)
    nearest = np.full(len(pool.names), -1)
    remaining = _by_uncertainty(pool)  # of equal scores, the first is taken
    picks: list[Pick] = []
    while remaining and len(picks) < count:
        scores = score(pool, distance)
        scan = max(remaining, key=lambda index: scores[index])
        remaining.remove(scan)
        pick = Pick(
            scan=scan,
            score=float(scores[scan]),
            nearest=int(nearest[scan]) if nearest[scan] >= 0 else None,
            distance=float(distance[scan]),
        )
        picks.append(pick)
        distance_to_pick = _distances(pool.features, pool.features[scan])
        nearest = np.where(distance_to_pick < distance, scan, nearest)
        distance = np.minimum(distance_to_pick, distance)
    return picks


def _by_uncertainty(pool: Pool) -> list[int]:
    """All scans, the most uncertain first, equal ones by name."""

    def key(scan: int) -> tuple[float, str]:
        return -pool.uncertainty[scan], pool.names[scan]

    return sorted(range(len(pool.names)), key=key)


def _distance_to_labelled(pool: Pool) -> PerScan:
    """The distance to the nearest labelled scan; infinite where there is none."""
    distances = [_distances(pool.features, labelled) for labelled in pool.labelled]
    if not distances:
        return np.full(len(pool.names), np.inf)
    return np.min(distances, axis=0)


def _distances(features: Float[np.ndarray, "N D"], scan: Float[np.ndarray, " D"]) -> PerScan:
    return np.linalg.norm(features - scan, axis=1)
