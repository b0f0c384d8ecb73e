"""Changes of an image's grey values: contrast, brightness, gamma, blur, lower resolution, noise."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from monai.networks.layers import GaussianFilter
from torch import Tensor
from torch.nn.functional import interpolate

from segpl.foundation.draws import Purpose, normal


@dataclass(frozen=True)
class Appearance:
    """How each image of a batch looks. Images have a standard deviation of 1."""

    contrast: Float[Tensor, " B"]
    """Factor on grey values."""
    brightness: Float[Tensor, " B"]
    """Added to grey values."""
    gamma: Float[Tensor, " B"]
    """Exponent on grey values between the image's smallest and largest."""
    blur: Float[Tensor, " B"]
    """Standard deviation of a Gaussian, in voxels of the plane; 0 leaves the image as it is."""
    coarseness: Float[Tensor, " B"]
    """The factor, 1 or more, by which the plane loses resolution."""
    noise: Float[Tensor, " B"]
    """Standard deviation of the noise."""
    seeds: Int[Tensor, " B"]
    """The noise is drawn from these."""

    def before_motion(self, x: Float[Tensor, "B C *space"]) -> Float[Tensor, "B C *space"]:
        """What belongs to the tissue: gamma, contrast, brightness."""
        spatial = tuple(range(2, x.ndim))
        low = x.amin(dim=spatial, keepdim=True)
        span = (x.amax(dim=spatial, keepdim=True) - low).clamp(min=1e-6)
        x = low + span * ((x - low) / span) ** _column(self.gamma, x)
        return x * _column(self.contrast, x) + _column(self.brightness, x)

    def after_motion(self, x: Float[Tensor, "B C *space"]) -> Float[Tensor, "B C *space"]:
        """What belongs to the scanner: blur, resolution, noise."""
        x = _for_each(x, self.blur, 0.0, _blurred)
        x = _for_each(x, self.coarseness, 1.0, _coarser)
        noise = normal(self.seeds, *x.shape[1:], purpose=Purpose.VIEW_NOISE)
        return x + _column(self.noise, x) * noise


def _column(values: Float[Tensor, " B"], x: Tensor) -> Tensor:
    """One number an image, shaped so that it multiplies the image."""
    return values.reshape(-1, *[1] * (x.ndim - 1))


def _for_each(
    x: Float[Tensor, "B C *space"],
    amounts: Float[Tensor, " B"],
    neutral: float,
    change: Callable[[Tensor, float], Tensor],
) -> Float[Tensor, "B C *space"]:
    """Each image changed by its own amount; those at the neutral amount are left as they are."""
    images = []
    for image, amount in zip(x, amounts.tolist(), strict=True):
        images.append(image if amount == neutral else change(image, amount))
    return torch.stack(images) if images else x


def _blurred(image: Float[Tensor, "C *space"], deviation: float) -> Float[Tensor, "C *space"]:
    """Blurred in the plane of the first two axes: slices are not mixed with one another."""
    planes = _planes(image)
    blurred = GaussianFilter(2, deviation).to(planes.device)(planes)
    return _volume(blurred, image)


def _coarser(image: Float[Tensor, "C *space"], factor: float) -> Float[Tensor, "C *space"]:
    """Averaged to fewer pixels in the plane, and interpolated back."""
    planes = _planes(image)
    size = planes.shape[2:]
    fewer = [max(2, round(n / factor)) for n in size]
    small = interpolate(planes, fewer, mode="bilinear", antialias=True)
    return _volume(interpolate(small, size, mode="bilinear"), image)


def _planes(image: Float[Tensor, "C *space"]) -> Float[Tensor, "N 1 X Y"]:
    """All planes of an image, each by itself."""
    stacked = image[..., None] if image.ndim == 3 else image
    return stacked.movedim(3, 1).flatten(0, 1)[:, None]


def _volume(
    planes: Float[Tensor, "N 1 X Y"], like: Float[Tensor, "C *space"]
) -> Float[Tensor, "C *space"]:
    """What `_planes` took apart, put together again."""
    stacked = planes.reshape(len(like), -1, *planes.shape[2:]).movedim(1, 3)
    return stacked.reshape(like.shape)
