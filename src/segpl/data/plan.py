"""What the data say about how to train: 2D or 3D, and the size of a patch."""

import numpy as np

from segpl.data.cases import Dataset
from segpl.data.loading import grid
from segpl.errors import UserError

LARGEST_PLANE = 176
"""The paper's crop: 176 x 176 in 2D."""
SMALLEST = 16
"""Smaller images are filled up to this with background."""
LARGEST_VOLUME = 176 * 176 * 3
"""The paper's crop in 3D, in voxels."""


def plan(dataset: Dataset) -> dict[str, object]:
    """The settings of a run that depend on the data; a user's own settings go before them."""
    if not dataset.training:
        raise UserError(f"{dataset.folder} has no training image: put some into imagesTr.")
    shapes, spacings = zip(*(grid(case.images[0]) for case in dataset.training), strict=True)
    shape, spacing = np.median(shapes, axis=0).astype(int).tolist(), np.median(spacings, axis=0)
    thick = spacing[2] >= 2.5 * spacing[:2].max()  # what lies in the next slice then says little about this one
    if thick or shape[2] == 1:
        patch = [min(max(_round_down(n, 16), SMALLEST), LARGEST_PLANE) for n in shape[:2]]
        return {"patch": patch, "channels": 16}
    patch = [max(_round_down(n, 8), smallest) for n, smallest in zip(shape, (SMALLEST, SMALLEST, 1), strict=True)]
    while np.prod(patch) > LARGEST_VOLUME:
        patch[int(np.argmax(patch))] -= 8
    return {"patch": patch, "channels": 8}


def _round_down(size: int, step: int) -> int:
    return size if size < step else size // step * step
