"""Changes of an image's grey values: gamma, contrast, brightness, blur, resolution and noise."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from monai.networks.layers import GaussianFilter
from torch import Tensor
from torch.nn.functional import interpolate

from segpl.em.broadcasting import append_axes
from segpl.em.tensors import Images, PerImage, Seeds
from segpl.foundation.draws import Purpose, normal

Image = Float[Tensor, "C *space"]
Planes = Float[Tensor, "N 1 X Y"]

NO_BLUR = 0.0
FULL_RESOLUTION = 1.0


@dataclass(frozen=True)
class Appearance:
    """How the grey values of each image of a batch change. Images have standard deviation 1."""

    contrast: PerImage
    """Factor on grey values."""
    brightness: PerImage
    """Added to grey values."""
    gamma: PerImage
    """Exponent on grey values, after they are scaled to [0, 1] from the image's own range."""
    blur: PerImage
    """Standard deviation of a Gaussian filter, in pixels of the plane; 0 is no blur."""
    coarseness: PerImage
    """Factor by which the plane loses resolution; 1 is full resolution."""
    noise: PerImage
    """Standard deviation of Gaussian noise."""
    seeds: Seeds
    """Seeds of the noise, one per image."""

    def before_motion(self, x: Images) -> Images:
        """The images with the changes that belong to the tissue: gamma, contrast, brightness."""
        spatial = tuple(range(2, x.ndim))
        low = x.amin(dim=spatial, keepdim=True)
        high = x.amax(dim=spatial, keepdim=True)
        span = (high - low).clamp(min=1e-6)
        gamma = append_axes(self.gamma, like=x)
        contrast = append_axes(self.contrast, like=x)
        brightness = append_axes(self.brightness, like=x)
        x = low + span * ((x - low) / span) ** gamma
        return x * contrast + brightness

    def after_motion(self, x: Images) -> Images:
        """The images with the changes that belong to the scanner: blur, resolution, noise."""
        x = _change_each(x, self.blur, NO_BLUR, _blur)
        x = _change_each(x, self.coarseness, FULL_RESOLUTION, _lower_resolution)
        noise = normal(self.seeds, *x.shape[1:], purpose=Purpose.VIEW_NOISE)
        return x + append_axes(self.noise, like=x) * noise


def _change_each(
    x: Images,
    amounts: PerImage,
    neutral: float,
    change: Callable[[Tensor, float], Tensor],
) -> Images:
    """Each image changed by its own amount; images with the neutral amount stay as they are."""
    images = []
    for image, amount in zip(x, amounts.tolist(), strict=True):
        if amount != neutral:
            image = change(image, amount)
        images.append(image)
    return torch.stack(images)


def _blur(image: Image, sigma: float) -> Image:
    """The image blurred in the plane of its first two axes, so slices are not mixed."""
    planes = _split_planes(image)
    gaussian = GaussianFilter(2, sigma).to(planes.device)
    return _join_planes(gaussian(planes), like=image)


def _lower_resolution(image: Image, factor: float) -> Image:
    """The image averaged to fewer pixels in the plane and interpolated back to its size."""
    planes = _split_planes(image)
    size = planes.shape[2:]
    small_size = [max(2, round(pixels / factor)) for pixels in size]
    small = interpolate(planes, small_size, mode="bilinear", antialias=True)
    return _join_planes(interpolate(small, size, mode="bilinear"), like=image)


def _split_planes(image: Image) -> Planes:
    """All planes of all channels, one after the other."""
    is_plane = image.ndim == 3
    volume = image[..., None] if is_plane else image
    planes = volume.movedim(3, 1).flatten(0, 1)
    return planes[:, None]


def _join_planes(planes: Planes, like: Image) -> Image:
    """The inverse of `_split_planes`: an image with the shape of `like`."""
    channels = len(like)
    volume = planes.reshape(channels, -1, *planes.shape[2:]).movedim(1, 3)
    return volume.reshape(like.shape)
