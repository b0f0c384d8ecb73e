"""Images and masks on a grid of another shape with the same field of view."""

from collections.abc import Sequence

from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import interpolate

Shape = tuple[int, int, int]
"""Voxels along X, Y and Z."""


def resampled_shape(
    shape: Sequence[int],
    spacing: Sequence[float],
    wanted: Sequence[float],
) -> Shape:
    """How many voxels `wanted` mm apart cover the same field of view. A single slice stays one."""
    sizes = []
    for size, step, wanted_step in zip(shape, spacing, wanted, strict=True):
        resampled = max(1, round(size * step / wanted_step))
        sizes.append(resampled if size > 1 else 1)
    x, y, z = sizes
    return x, y, z


def resample(
    x: Float[Tensor, "*lead X Y Z"],
    shape: tuple[int, ...],
) -> Float[Tensor, "*lead x y z"]:
    """The image on a grid of another shape; the image itself if the shape is the same."""
    old_shape = x.shape[-3:]
    leading_axes = x.shape[:-3]
    if tuple(old_shape) == tuple(shape):
        return x
    channels = x.reshape(1, -1, *old_shape)
    # Averaging prevents aliasing along axes that get fewer voxels.
    averaged_shape = [min(sizes) for sizes in zip(shape, old_shape, strict=True)]
    averaged = interpolate(channels, size=averaged_shape, mode="area")
    resampled = interpolate(averaged, size=shape, mode="trilinear")
    return resampled.reshape(*leading_axes, *shape)


def resample_label(y: Bool[Tensor, "K X Y Z"], shape: tuple[int, ...]) -> Bool[Tensor, "K x y z"]:
    """The masks on a grid of another shape; the masks themselves if the shape is the same.

    Takes the nearest voxel, so thin structures become neither thicker nor thinner on average.
    """
    if tuple(y.shape[-3:]) == tuple(shape):
        return y
    nearest = interpolate(y[None].float(), size=shape, mode="nearest-exact")
    return nearest[0] > 0.5
