"""Distances between the surfaces of a mask and of the truth."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy import ndimage
from scipy.spatial import KDTree

from segpl.metrics.tensors import Scores, Spacing, Volumes

SLACK = 1e-4
"""Added to a tolerance, in mm: a spacing read from a header is rounded, and a distance of exactly
one voxel must not exceed a tolerance of one voxel."""
KD_TREE_LIMIT = 200_000
"""Number of surface voxels up to which a k-d tree is faster than a distance map."""

Region = Bool[np.ndarray, "*space"]
"""The mask of one region."""
Size = Float[np.ndarray, " D"]
"""The size of a voxel in mm."""
Distances = Float[np.ndarray, " _"]
"""Of each voxel of a surface, the distance to the other surface in mm."""


class SurfaceScores(NamedTuple):
    """Scores of two surfaces. Both are computed from the same distances, which are expensive."""

    hd95: Scores
    """The 95th percentile of the distances in mm, the larger of the two directions."""
    dice: Scores
    """The share of the voxels of both surfaces that lie within a tolerance of the other surface."""


def surface_scores(
    mask: Volumes, truth: Volumes, spacing: Spacing, tolerance: float
) -> SurfaceScores:
    """HD95 and surface Dice of each region, for a tolerance in mm.

    Both are NaN if mask and truth are empty. If one of them is, HD95 is the diagonal of the image,
    which no distance can exceed, and the surface Dice is 0. A single slice is scored as a 2D image,
    because every voxel of it would be surface in 3D; its diagonal is that of the plane.
    """
    size = np.array(spacing)
    is_plane = mask.shape[-1] == 1
    if is_plane:
        mask = mask[..., 0]
        truth = truth[..., 0]
        size = size[:2]
    extent = np.array(mask.shape[1:]) * size
    diagonal = float(np.linalg.norm(extent))
    regions = mask.cpu().numpy()
    true_regions = truth.cpu().numpy()
    hd95 = []
    dice = []
    for region, true_region in zip(regions, true_regions, strict=True):
        if region.any() and true_region.any():
            both_ways = distances(region, true_region, size)
            hd95.append(_hd95(*both_ways))
            dice.append(_surface_dice(*both_ways, tolerance))
        elif region.any() or true_region.any():
            hd95.append(diagonal)
            dice.append(0.0)
        else:
            hd95.append(np.nan)
            dice.append(np.nan)
    return SurfaceScores(
        hd95=torch.tensor(hd95, dtype=torch.float32),
        dice=torch.tensor(dice, dtype=torch.float32),
    )


def _hd95(mask_to_truth: Distances, truth_to_mask: Distances) -> float:
    return max(np.percentile(mask_to_truth, 95), np.percentile(truth_to_mask, 95))


def _surface_dice(mask_to_truth: Distances, truth_to_mask: Distances, tolerance: float) -> float:
    """The share of surface voxels within the tolerance."""
    near_truth = np.count_nonzero(mask_to_truth <= tolerance + SLACK)
    near_mask = np.count_nonzero(truth_to_mask <= tolerance + SLACK)
    return (near_truth + near_mask) / (len(mask_to_truth) + len(truth_to_mask))


def distances(mask: Region, truth: Region, size: Size) -> tuple[Distances, Distances]:
    """The distances from mask to truth and from truth to mask, of each voxel of the surface.

    A k-d tree of the surface voxels is faster if they are few. A shattered mask has millions of
    them, and a distance map is faster.
    """
    bounding_box = ndimage.find_objects((mask | truth).astype(np.uint8))[0]
    mask_surface = _surface(mask[bounding_box])
    true_surface = _surface(truth[bounding_box])
    mask_points = np.argwhere(mask_surface) * size
    true_points = np.argwhere(true_surface) * size
    if max(len(mask_points), len(true_points)) <= KD_TREE_LIMIT:
        mask_to_truth, _ = KDTree(true_points).query(mask_points, workers=-1)
        truth_to_mask, _ = KDTree(mask_points).query(true_points, workers=-1)
        return mask_to_truth, truth_to_mask
    to_truth = ndimage.distance_transform_edt(~true_surface, sampling=size)
    to_mask = ndimage.distance_transform_edt(~mask_surface, sampling=size)
    return to_truth[mask_surface], to_mask[true_surface]


def _surface(region: Region) -> Region:
    """The voxels with a face on the background. Beyond the border of the image is background."""
    return region & ~ndimage.binary_erosion(region)
