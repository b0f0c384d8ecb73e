"""One label map from the masks of all regions."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from segpl.data.cases import Region
from segpl.inference.levels import HALF, LevelMaps, z_slabs


def merge_regions(
    masks: Bool[Tensor, "K *space"],
    regions: Sequence[Region],
) -> Integer[np.ndarray, "*space"]:
    """One label map in the values of the training data: a later region covers an earlier one."""
    value_types = [np.min_scalar_type(region.paint) for region in regions]  # values may be negative
    label = np.zeros(masks.shape[1:], dtype=np.result_type(*value_types))
    for region, mask in zip(regions, masks.numpy(), strict=True):
        label[mask] = region.paint
    return label


def label_map(
    mask_levels: LevelMaps,
    regions: Sequence[Region],
) -> Integer[np.ndarray, "X Y Z"]:
    """The label map of levels that exceed 1/2 inside the masks, slab by slab to save memory."""
    slabs = []
    for planes in z_slabs(mask_levels.shape[1:]):
        masks = torch.from_numpy(mask_levels[..., planes] > HALF)
        slabs.append(merge_regions(masks, regions))
    return np.concatenate(slabs, axis=2)
