"""How uncertain a network is about one scan: by its probabilities, and by its consistency."""

import numpy as np
import torch
from jaxtyping import Float, UInt16
from torch import Tensor

from segpl.em.views import draw_view
from segpl.inference.levels import ENTROPY, FULL, HALF, z_slabs
from segpl.inference.numbers import near_mask
from segpl.inference.predictor import MapOptions, Predictor
from segpl.metrics.overlap import dice

Levels = UInt16[np.ndarray, "K X Y Z"]
"""A map of each region as 16-bit levels: see `segpl.inference.levels`."""

VIEW_SEEDS = (0, 1, 2)
"""Every scan is predicted in the same views."""
VIEW_STRENGTH = 0.5
"""Rotations up to 14 degrees, zooms up to 11 %, changed contrast, some noise."""


def uncertainty(
    levels: Levels,
    mask_levels: Levels,
    spacing: tuple[float, float, float],
) -> tuple[float, int]:
    """Mean entropy of a prediction in bits, and the index of the most uncertain slice.

    The entropy of a region is averaged over its mask and the voxels within 5 mm of it; the result
    is the mean over regions. Voxels far from a mask do not count, or large scans would all look
    certain. The most uncertain slice, along the last axis, has the largest sum of entropy.
    """
    entropy = np.zeros((len(levels), levels.shape[3]))
    voxels = np.zeros(len(levels))
    for index, region in enumerate(levels):
        mask = mask_levels[index]
        if not (mask > HALF).any():
            mask = _likeliest_voxels(region)
        for slab in z_slabs(region.shape):
            near = near_mask(mask, slab, spacing)
            entropy_of_slab = ENTROPY[region[..., slab]]
            entropy[index, slab] = entropy_of_slab.sum(axis=(0, 1), where=near)
            voxels[index] += near.sum()
    entropy_per_voxel = entropy.sum(1) / voxels
    entropy_per_slice = entropy.sum(0)
    return float(entropy_per_voxel.mean()), int(entropy_per_slice.argmax())


def _likeliest_voxels(region: UInt16[np.ndarray, "X Y Z"]) -> UInt16[np.ndarray, "X Y Z"]:
    """A mask for a region whose own mask is empty: where it is at least half as likely as anywhere.

    A region that is surely absent then counts as certain, and one whose probability stays just
    below 1/2 as uncertain.
    """
    half_of_largest = region.max() / 2
    return np.where(region >= half_of_largest, np.uint16(FULL), np.uint16(0))


def disagreement(
    predictor: Predictor,
    x: Float[Tensor, "C X Y Z"],
    mask_levels: Levels,
    samples: int,
) -> float:
    """1 - Dice between the mask of a view and the view of the mask, averaged over views.

    0 is full agreement. Regions that both masks lack are left out; if all are, the result is 0.
    """
    mask = torch.from_numpy(mask_levels > HALF)[None].float()
    overlaps = []
    for seed in VIEW_SEEDS:
        view = draw_view(torch.tensor([seed]), VIEW_STRENGTH)
        viewed_x = view.image(x[None])[0]
        maps = predictor.maps(viewed_x, MapOptions(samples))
        mask_of_view = torch.from_numpy(maps.mask_levels > HALF)
        view_of_mask = view.label(mask)[0] > 0.5
        overlaps.append(dice(mask_of_view, view_of_mask))
    overlap = torch.stack(overlaps).nanmean()
    return 0.0 if overlap.isnan() else 1 - float(overlap)
