"""How good a mask is: pure functions of masks, one number per region, used in training and in evaluation."""

import math
import warnings
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from monai.metrics import compute_hausdorff_distance, compute_surface_dice
from torch import Tensor

Spacing = tuple[float, float, float]
"""The size of a voxel in mm."""
SLACK = 1e-4
"""In mm: a spacing that was read from a header is seldom exact, and a distance of one voxel must not miss by that."""


def voxels(mask: Bool[Tensor, "K *space"]) -> Int[Tensor, " K"]:
    """How many voxels are foreground."""
    return torch.stack([region.count_nonzero() for region in mask])  # ten times as fast as a sum over axes


def iou(mask: Bool[Tensor, "K *space"], truth: Bool[Tensor, "K *space"]) -> Float[Tensor, " K"]:
    """Intersection over union of the foreground. Both empty: undefined (NaN); one of them empty: 0."""
    both, either = voxels(mask & truth), voxels(mask | truth)
    return both / either.where(either > 0, torch.nan)


def mean_iou(mask: Bool[Tensor, "K *space"], truth: Bool[Tensor, "K *space"]) -> Float[Tensor, " K"]:
    """The mean of the foreground's and the background's IoU. Both empty: undefined (NaN). Both full: the foreground's.

    An empty mask has nearly half of it for nothing, so it is no headline; the paper's tables probably show it.
    """
    foreground, background = iou(mask, truth), iou(~mask, ~truth)
    return (foreground + background.where(~background.isnan(), foreground)) / 2


def dice(mask: Bool[Tensor, "K *space"], truth: Bool[Tensor, "K *space"]) -> Float[Tensor, " K"]:
    """Dice overlap of the foreground. Both empty: undefined (NaN); one of them empty: 0."""
    both, total = voxels(mask & truth), voxels(mask) + voxels(truth)
    return 2 * both / total.where(total > 0, torch.nan)


def hd95(mask: Bool[Tensor, "K X Y Z"], truth: Bool[Tensor, "K X Y Z"], spacing: Spacing) -> Float[Tensor, " K"]:
    """The 95th percentile of the distances between the surfaces, in mm: the worse of the two directions.

    Both empty: undefined (NaN); one of them empty: the diagonal of the image, which no distance can exceed. A single
    slice is a 2D image, its diagonal too.
    """
    mask, truth, size = _plane_or_volume(mask, truth, spacing)
    diagonal = math.hypot(*(length * mm for length, mm in zip(mask.shape[1:], size, strict=True)))
    return _where_both(
        lambda m, t: compute_hausdorff_distance(m, t, include_background=True, percentile=95, spacing=size),
        (mask, truth),
        one_empty=diagonal,
    )


def surface_dice(
    mask: Bool[Tensor, "K X Y Z"], truth: Bool[Tensor, "K X Y Z"], spacing: Spacing, tolerance: float
) -> Float[Tensor, " K"]:
    """The share of both surfaces' voxels that lie within `tolerance` mm of the other surface.

    Both empty: undefined (NaN); one of them empty: 0.
    """
    mask, truth, size = _plane_or_volume(mask, truth, spacing)
    return _where_both(
        lambda m, t: compute_surface_dice(
            m, t, m.shape[1] * [tolerance + SLACK], include_background=True, spacing=size
        ),
        (mask, truth),
        one_empty=0.0,
    )


def volume(mask: Bool[Tensor, "K *space"], spacing: Spacing) -> Float[Tensor, " K"]:
    """The volume of the foreground in ml."""
    return voxels(mask) * (math.prod(spacing) / 1000)


def volume_error(
    mask: Bool[Tensor, "K *space"], truth: Bool[Tensor, "K *space"], spacing: Spacing
) -> Float[Tensor, " K"]:
    """Predicted minus true volume in ml: above 0 where the mask is too large. Both empty: 0, which is the truth."""
    return (voxels(mask) - voxels(truth)) * (math.prod(spacing) / 1000)


def _plane_or_volume(
    mask: Bool[Tensor, "K X Y Z"], truth: Bool[Tensor, "K X Y Z"], spacing: Spacing
) -> tuple[Bool[Tensor, "K *space"], Bool[Tensor, "K *space"], tuple[float, ...]]:
    """A single slice without its third axis: as a volume it would be surface through and through."""
    return (mask[..., 0], truth[..., 0], spacing[:2]) if mask.shape[-1] == 1 else (mask, truth, spacing)


def _where_both(
    score: Callable[[Bool[Tensor, "1 N *space"], Bool[Tensor, "1 N *space"]], Float[Tensor, "1 N"]],
    masks: tuple[Bool[Tensor, "K *space"], Bool[Tensor, "K *space"]],
    one_empty: float,
) -> Float[Tensor, " K"]:
    """A score of surfaces where there are two; NaN where there is none."""
    mask, truth = masks
    predicted, true = mask.flatten(1).any(1), truth.flatten(1).any(1)
    both = predicted & true
    scores = torch.full_like(both, torch.nan, dtype=torch.float32).masked_fill(predicted ^ true, one_empty)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # MONAI warns of how it calls itself
        return scores.masked_scatter(both, score(mask[both][None], truth[both][None]))
