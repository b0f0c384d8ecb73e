"""Grey values with zero mean and unit standard deviation."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

Window = tuple[float, float]
"""The lowest and the highest grey value that is kept."""


def normalise(
    values: Float[np.ndarray, "X Y Z"],
    window: Window | None = None,
) -> Float[np.ndarray, "X Y Z"]:
    """Zero mean and unit standard deviation over the body.

    The body is all voxels that are not 0 if 0 is a background, and otherwise all voxels. With a
    `window`, values are clipped to it and there is no background. A background stays 0, so that
    padding continues it.
    """
    if window:
        low, high = window
        values = np.clip(values, low, high)
    body = values != 0
    has_background = not window and body.any() and is_background(~body)
    if not has_background:
        body = np.ones_like(body)
    inside = values[body]
    standard_deviation = max(float(inside.std()), 1e-6)
    normalised = (values - inside.mean()) / standard_deviation
    return np.where(body, normalised, 0).astype(np.float32)


def is_background(zeros: Bool[np.ndarray, "X Y Z"]) -> bool:
    """Whether zeros are a background around a body, and not dark voxels or water in CT.

    Background fills cubes: cubes of 5 voxels' width hold 99.9 % of the zeros around skull-stripped
    brains, 86 % of a microscope's zeros, and 11 to 98 % of those of retinal photographs.
    """
    if zeros.mean() < 0.01:
        return False
    # A morphological opening with a cube: erosion by 2 voxels, then dilation by 2. Bundles use this
    # function too, where there is no scipy; MONAI's opening takes seventeen times as long.
    opened = np.pad(zeros, 4, constant_values=True)
    for combine in (np.logical_and, np.logical_or):
        for axis in range(3):
            opened = combine_neighbours(opened, axis, combine)
    return bool(opened.sum() >= 0.99 * zeros.sum())


def combine_neighbours(
    mask: Bool[np.ndarray, "X Y Z"],
    axis: int,
    combine: Callable[..., np.ndarray],
) -> Bool[np.ndarray, "x y z"]:
    """Each five neighbours along an axis combined into one voxel; the axis loses 4 voxels."""
    planes = np.moveaxis(mask, axis, 0)
    count = len(planes) - 4
    combined = planes[:count]
    for shift in range(1, 5):
        combined = combine(combined, planes[shift : shift + count])
    return np.moveaxis(combined, 0, axis)
