"""Views of an image: drawing how it changes is separate from changing it, so a label can be moved along."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from segpl.draws import Purpose, normal, uniform

ROTATION, SCALE, CONTRAST, GAMMA, NOISE = 0.5, 0.2, 0.5, 0.5, 0.3
"""Limits at strength 1: radians, and logarithms of factors; the noise is in deviations of the normalised image."""
OPERATIONS = 5


@dataclass(frozen=True)
class View:
    """How each image of a batch is changed. Strength 0 changes nothing, bit for bit.

    Nothing is mirrored: scans come in one orientation, and in a mirrored one the front of an organ is its back.
    """

    angle: Float[Tensor, " B"]
    zoom: Float[Tensor, " B"]
    contrast: Float[Tensor, " B"]
    gamma: Float[Tensor, " B"]
    noise: Float[Tensor, " B"]
    seeds: Int[Tensor, " B"]
    strength: float

    def image(self, x: Float[Tensor, "B C *space"]) -> Float[Tensor, "B C *space"]:
        """The image as seen: grey values changed, then moved, then noise as a scanner would add it."""
        if not self.strength:
            return x
        column = (-1,) + (1,) * (x.ndim - 1)
        low, high = (side(x.flatten(2), 2).reshape(*x.shape[:2], *column[2:]) for side in (torch.amin, torch.amax))
        bright = ((x - low) / (high - low).clamp(min=1e-6)) ** self.gamma.reshape(column)
        x = (low + bright * (high - low)) * self.contrast.reshape(column)
        return self._moved(x, "bilinear") + self.noise.reshape(column) * self._noise(x)

    def _noise(self, x: Tensor) -> Tensor:
        return normal(self.seeds, *x.shape[1:], purpose=Purpose.VIEW_NOISE)

    def label(self, y: Float[Tensor, "B K *space"]) -> Float[Tensor, "B K *space"]:
        """The label moved along with the image."""
        return self._moved(y, "nearest") if self.strength else y

    def _moved(self, x: Tensor, mode: str) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):  # in half precision places are off by half a voxel
            grid = affine_grid(self._matrix(x.shape[2:]), list(x.shape), align_corners=False)
        # Reflected, image and label alike: what a turn brings in from outside must not be learnt as background.
        return grid_sample(x, grid, mode=mode, padding_mode="reflection", align_corners=False)

    def _matrix(self, space: torch.Size) -> Float[Tensor, "B D D+1"]:
        """Turned and zoomed in the plane of the first two axes; slices stay slices."""
        dimensions = len(space)
        matrix = torch.eye(dimensions, dimensions + 1).to(self.angle).repeat(len(self.angle), 1, 1)
        cos, sin = self.angle.cos() / self.zoom, self.angle.sin() / self.zoom
        # torch counts grid axes from the last: the plane's two axes are its last two coordinates
        second, first = dimensions - 2, dimensions - 1
        aspect = space[0] / space[1]
        matrix[:, first, first] = matrix[:, second, second] = cos
        matrix[:, first, second], matrix[:, second, first] = -sin / aspect, sin * aspect
        return matrix


def draw_view(seeds: Int[Tensor, " B"], strength: float, operations: int = OPERATIONS) -> View:
    """A view of each image from its own seed, up to `strength`; RandAugment picks some of the operations at random."""
    u = uniform(seeds, 2 * OPERATIONS, purpose=Purpose.VIEW)
    chosen = (u[:, OPERATIONS:].argsort(1).argsort(1) < operations).to(u) * strength
    rotate, scale, contrast, gamma, noise = chosen.unbind(1)
    centred = 2 * u - 1
    return View(
        angle=ROTATION * rotate * centred[:, 0],
        zoom=(SCALE * scale * centred[:, 1]).exp(),
        contrast=(CONTRAST * contrast * centred[:, 2]).exp(),
        gamma=(GAMMA * gamma * centred[:, 3]).exp(),
        noise=NOISE * noise * u[:, 4],
        seeds=seeds,
        strength=strength,
    )


def add_noise(
    x: Float[Tensor, "B C *space"], seeds: Int[Tensor, " B"], deviation: float, purpose: Purpose = Purpose.WEAK_NOISE
) -> Float[Tensor, "B C *space"]:
    """The weak view: Gaussian noise, drawn for each image from its own seed."""
    return x + deviation * normal(seeds, *x.shape[1:], purpose=purpose) if deviation else x
