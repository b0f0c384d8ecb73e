"""What the data say about how to train: 2D or 3D, and the size of a patch."""

import numpy as np

from segpl.data.cases import Dataset
from segpl.data.loading import grid

LARGEST_PLANE = 176
"""The paper's crop: 176 x 176 in 2D."""
LARGEST_VOLUME = 176 * 176 * 3
"""The paper's crop in 3D, in voxels."""


def plan(dataset: Dataset) -> dict[str, object]:
    """The settings of a run that depend on the data; a user's own settings go before them."""
    shapes, spacings = zip(*(grid(case.images[0]) for case in dataset.training), strict=True)
    shape, spacing = np.median(shapes, axis=0).astype(int).tolist(), np.median(spacings, axis=0)
    thick = spacing[2] >= 2.5 * spacing[:2].max()  # what lies in the next slice then says little about this one
    if thick or shape[2] == 1:
        patch = [min(_round_down(n, 16), LARGEST_PLANE) for n in shape[:2]]
        return {"patch": patch, "channels": 16}
    patch = [_round_down(n, 8) for n in shape]
    while np.prod(patch) > LARGEST_VOLUME:
        patch[int(np.argmax(patch))] -= 8
    return {"patch": patch, "channels": 8}


def _round_down(size: int, step: int) -> int:
    return size if size < step else size // step * step
