"""Why a scan has its rank, in a few words."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from segpl.ranking.assessment import Assessment
from segpl.ranking.ordering import PerScan, Pick

SIMILAR = 0.35
"""Scans nearer than this are similar: a quarter of the distance between two unrelated ones."""
TOP_SHARE = 1 / 3
"""A number stands out if it is among this share of the highest."""


def rank_reasons(
    picks: Sequence[Pick],
    names: Sequence[str],
    assessments: Sequence[Assessment],
    novelty: PerScan,
) -> list[str]:
    """The reason for each pick: what stands out among all scans, and what it is similar to."""
    uncertainty = np.array([assessment.uncertainty for assessment in assessments])
    disagreement = np.array([assessment.disagreement for assessment in assessments])
    is_novel = ~(novelty < SIMILAR)
    outstanding = {
        "uncertain": _stands_out(uncertainty),
        "unlike the labelled scans": _stands_out(novelty) & is_novel,
        "inconsistent under rotation and changed contrast": _stands_out(disagreement),
    }
    texts = []
    for pick in picks:
        reason = [text for text, stands_out in outstanding.items() if stands_out[pick.scan]]
        missing = assessments[pick.scan].missing
        reason += [f"finds no {region}" for region in missing]
        if pick.distance < SIMILAR:
            reason.append(_similarity(pick, names))
        if not reason:
            reason.append("nothing stands out")
        texts.append("; ".join(reason))
    return texts


def _similarity(pick: Pick, names: Sequence[str]) -> str:
    if pick.nearest is None:
        return "similar to a labelled scan"
    return f"similar to {names[pick.nearest]}, which has a higher rank"


def _stands_out(values: PerScan) -> Bool[np.ndarray, " N"]:
    """Which values are among the highest; undefined values and zeros never are."""
    if not np.isfinite(values).any():
        return values > 0
    limit = np.nanquantile(values, 1 - TOP_SHARE)
    return (values > 0) & (values >= limit)
