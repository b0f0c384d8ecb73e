"""How good a mask is: pure functions of masks, one number per region, used in training and in evaluation."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def iou(mask: Bool[Tensor, "K *space"], truth: Bool[Tensor, "K *space"]) -> Float[Tensor, " K"]:
    """Intersection over union of the foreground. Both empty: undefined (NaN); one of them empty: 0."""
    both, either = (mask & truth).flatten(1).sum(1), (mask | truth).flatten(1).sum(1)
    return both / either.where(either > 0, torch.nan)


def dice(mask: Bool[Tensor, "K *space"], truth: Bool[Tensor, "K *space"]) -> Float[Tensor, " K"]:
    """Dice overlap of the foreground. Both empty: undefined (NaN); one of them empty: 0."""
    both, total = (mask & truth).flatten(1).sum(1), mask.flatten(1).sum(1) + truth.flatten(1).sum(1)
    return 2 * both / total.where(total > 0, torch.nan)
