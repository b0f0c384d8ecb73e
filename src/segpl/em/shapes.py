"""A prior on labels, learnt from the labels: regions in one piece, regions inside others."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy import ndimage
from torch import Tensor


def keep_largest(
    y: Float[Tensor, "B K *space"], single_component: Sequence[int]
) -> Float[Tensor, "B K *space"]:
    """Of the regions listed, the largest connected component in each image; other regions stay.

    Voxels that touch at a corner are connected. An empty region stays empty.
    """
    if not single_component:
        return y
    kept = y.clone()
    for image in kept:
        for region in single_component:
            mask = largest_component(image[region].cpu().numpy() > 0.5)
            image[region] = torch.from_numpy(mask).to(y)
    return kept


def largest_component(mask: Bool[np.ndarray, "*space"]) -> Bool[np.ndarray, "*space"]:
    """The largest of the connected components; of equally large ones the first in memory."""
    components, count = ndimage.label(mask, ndimage.generate_binary_structure(mask.ndim, mask.ndim))
    if count <= 1:
        return mask
    sizes = np.bincount(components.ravel())
    sizes[0] = 0  # the background
    return components == sizes.argmax()


def keep_nested(
    y: Float[Tensor, "B K *space"], nested: Sequence[tuple[int, int]]
) -> Float[Tensor, "B K *space"]:
    """Of each region that lies inside another (inner, outer), what the outer one holds."""
    if not nested:
        return y
    kept = y.clone()
    for inner, outer in nested:
        kept[:, inner] = kept[:, inner] * kept[:, outer]
    return kept
