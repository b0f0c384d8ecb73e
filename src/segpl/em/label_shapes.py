"""A prior on the shape of labels: regions in one piece, and regions inside others."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool
from scipy import ndimage

from segpl.em.tensors import Labels

Mask = Bool[np.ndarray, "*space"]


def keep_largest(y: Labels, single_component: Sequence[int]) -> Labels:
    """The label with only the largest connected component of each region in `single_component`.

    Regions are listed by number from 0; regions that are not listed stay as they are. Voxels that
    touch at a corner are connected. An empty region stays empty.
    """
    if not single_component:
        return y
    kept = y.clone()
    for image in kept:
        for region in single_component:
            mask = image[region].cpu().numpy() > 0.5
            image[region] = torch.from_numpy(largest_component(mask)).to(y)
    return kept


def largest_component(mask: Mask) -> Mask:
    """The largest connected component; of several equally large ones, the first in memory."""
    corners_connect = ndimage.generate_binary_structure(mask.ndim, mask.ndim)
    components, count = ndimage.label(mask, corners_connect)
    if count <= 1:
        return mask
    sizes = np.bincount(components.ravel())
    sizes[0] = 0  # component 0 is the background
    return components == sizes.argmax()


def keep_nested(y: Labels, nested: Sequence[tuple[int, int]]) -> Labels:
    """The label with each inner region limited to its outer region, for pairs (inner, outer)."""
    if not nested:
        return y
    kept = y.clone()
    for inner, outer in nested:
        kept[:, inner] = kept[:, inner] * kept[:, outer]
    return kept
