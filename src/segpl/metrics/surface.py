"""How far the surfaces of a mask and of the truth lie apart."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy import ndimage
from scipy.spatial import KDTree
from torch import Tensor

from segpl.metrics.overlap import Spacing

SLACK = 1e-4
"""In mm: a spacing that was read from a header is seldom exact, and a distance of one voxel must not miss by that."""
FEW = 200_000
"""Surface voxels up to which a tree is quicker than a map of distances."""


class SurfaceScores(NamedTuple):
    """Scores of two surfaces, which share their costly part: the distances between them."""

    hd95: Float[Tensor, " K"]
    """The 95th percentile of the distances in mm, the worse of the two directions."""
    dice: Float[Tensor, " K"]
    """The share of both surfaces' voxels that lie within a tolerance of the other surface."""


def surface_scores(
    mask: Bool[Tensor, "K X Y Z"],
    truth: Bool[Tensor, "K X Y Z"],
    spacing: Spacing,
    tolerance: float,
) -> SurfaceScores:
    """How far apart the surfaces of mask and truth lie.

    Both empty: undefined (NaN). One of them empty: HD95 is the diagonal of the image, which no distance can exceed, and
    the surface Dice is 0. A single slice is a 2D image, its diagonal too: as a volume it would be all surface.
    """
    if mask.shape[-1] == 1:
        mask, truth, size = mask[..., 0], truth[..., 0], np.array(spacing[:2])
    else:
        size = np.array(spacing)
    diagonal = float(np.linalg.norm(np.array(mask.shape[1:]) * size))
    rows: list[tuple[float, float]] = []
    for found, true in zip(mask.cpu().numpy(), truth.cpu().numpy(), strict=True):
        if found.any() and true.any():
            there, back = distances(found, true, size)
            near = np.count_nonzero(there <= tolerance + SLACK) + np.count_nonzero(
                back <= tolerance + SLACK
            )
            rows.append(
                (
                    max(np.percentile(there, 95), np.percentile(back, 95)),
                    near / (len(there) + len(back)),
                )
            )
        else:
            rows.append((diagonal, 0.0) if found.any() or true.any() else (np.nan, np.nan))
    return SurfaceScores(*torch.tensor(rows, dtype=torch.float32).T)


def distances(
    mask: Bool[np.ndarray, "*space"],
    truth: Bool[np.ndarray, "*space"],
    size: Float[np.ndarray, " D"],
) -> tuple[Float[np.ndarray, " M"], Float[np.ndarray, " T"]]:
    """From each voxel of the mask's surface to the truth's surface, and from each of the truth's to the mask's, in mm.

    A tree of the points is quickest while they are few; a shattered mask has millions, and a map of distances is.
    """
    box = ndimage.find_objects((mask | truth).astype(np.uint8))[0]
    # A surface voxel has a neighbour outside, across a face; what lies beyond the image is outside.
    mine, theirs = (each & ~ndimage.binary_erosion(each) for each in (mask[box], truth[box]))
    points = [np.argwhere(surface) * size for surface in (mine, theirs)]
    if max(map(len, points)) <= FEW:
        there, back = (
            KDTree(to).query(start, workers=-1)[0] for start, to in (points, points[::-1])
        )
        return there, back
    maps = [ndimage.distance_transform_edt(~surface, sampling=size) for surface in (theirs, mine)]
    return maps[0][mine], maps[1][theirs]
