"""How unsure a network is of one scan: what its probabilities admit, and whether it says the same of a changed view."""

import numpy as np
import torch
from jaxtyping import Float, UInt16
from torch import Tensor

from segpl.em.views import draw_view
from segpl.inference.levels import ENTROPY, FULL, HALF, parts
from segpl.inference.numbers import nearby
from segpl.inference.predictor import Predictor, Wanted
from segpl.metrics.overlap import dice

VIEWS = (0, 1, 2)
"""The seeds of the views: every scan is seen in the same ones."""
STRENGTH = 0.5
"""Of the views: turns up to 14 degrees, zooms up to 11 %, other contrast, some noise."""


def uncertainty(
    levels: UInt16[np.ndarray, "K X Y Z"], spacing: tuple[float, float, float]
) -> tuple[float, int]:
    """Mean entropy in bits of each region's mask and of what lies within 5 mm, meaned over regions; the worst slice.

    What is far from a mask does not count, or large scans would all look sure. A region that was not found has no mask:
    there it is where it is at least half as likely as anywhere, so that a region that is surely absent counts as sure,
    and one that only just stayed below 1/2 as unsure. The worst slice, counted from 0 along the last axis, has the
    largest sum.
    """
    entropy = np.zeros((len(levels), levels.shape[3]))
    voxels = np.zeros(len(levels))
    for place, region in enumerate(levels):
        found = region if (region > HALF).any() else _likeliest(region)
        for part in parts(region.shape):
            near = nearby(found, part, spacing)
            entropy[place, part] = ENTROPY[region[..., part]].sum(axis=(0, 1), where=near)
            voxels[place] += near.sum()
    return float((entropy.sum(1) / voxels).mean()), int(entropy.sum(0).argmax())


def _likeliest(region: UInt16[np.ndarray, "X Y Z"]) -> UInt16[np.ndarray, "X Y Z"]:
    """A mask in place of one that is empty."""
    return np.where(region >= region.max() / 2, np.uint16(FULL), np.uint16(0))


def disagreement(
    predictor: Predictor,
    x: Float[Tensor, "C X Y Z"],
    levels: UInt16[np.ndarray, "K X Y Z"],
    samples: int,
) -> float:
    """Mean of 1 - Dice between the mask of a changed view and the mask that is moved along with it: 0 is best.

    A region that neither mask holds says nothing; where that is so of all, the network agrees with itself.
    """
    mask = torch.from_numpy(levels > HALF)[None].float()
    overlaps = []
    for seed in VIEWS:
        view = draw_view(torch.tensor([seed]), STRENGTH)
        seen = predictor.maps(view.image(x[None])[0], Wanted(samples))[: len(levels)]
        overlaps.append(dice(torch.from_numpy(seen > HALF), view.label(mask)[0] > 0.5))
    overlap = torch.stack(overlaps).nanmean()
    return 0.0 if overlap.isnan() else 1 - float(overlap)
