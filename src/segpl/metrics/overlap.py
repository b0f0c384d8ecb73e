"""Overlap and volume of masks, one number per region; used in training and in evaluation."""

import math

import torch

from segpl.metrics.tensors import Counts, Masks, Scores, Spacing

MM3_PER_ML = 1000


def voxels(mask: Masks) -> Counts:
    """The number of foreground voxels."""
    # Region by region this is ten times as fast as a sum over axes.
    return torch.stack([region.count_nonzero() for region in mask])


def iou(mask: Masks, truth: Masks) -> Scores:
    """Intersection over union of the foreground; NaN if both are empty, 0 if one of them is."""
    intersection = voxels(mask & truth)
    union = voxels(mask | truth)
    return intersection / union.where(union > 0, torch.nan)


def mean_iou(mask: Masks, truth: Masks) -> Scores:
    """The mean of the IoUs of foreground and background.

    NaN if both masks are empty; the foreground's IoU if both are full. An empty mask scores almost
    1/2, so this is not the headline; the paper's tables probably show it.
    """
    foreground = iou(mask, truth)
    background = iou(~mask, ~truth)
    background = background.where(~background.isnan(), foreground)
    return (foreground + background) / 2


def dice(mask: Masks, truth: Masks) -> Scores:
    """Dice overlap of the foreground; NaN if both are empty, 0 if one of them is."""
    intersection = voxels(mask & truth)
    total = voxels(mask) + voxels(truth)
    return 2 * intersection / total.where(total > 0, torch.nan)


def volume(mask: Masks, spacing: Spacing) -> Scores:
    """The volume of the foreground in ml."""
    return voxels(mask) * _ml_per_voxel(spacing)


def volume_error(mask: Masks, truth: Masks, spacing: Spacing) -> Scores:
    """Predicted minus true volume in ml: positive if the mask is too large, 0 if both are empty."""
    return (voxels(mask) - voxels(truth)) * _ml_per_voxel(spacing)


def _ml_per_voxel(spacing: Spacing) -> float:
    return math.prod(spacing) / MM3_PER_ML
