"""Views of an image: drawing how it changes is separate from changing it, so a label can be moved along."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from segpl.em.appearance import Appearance
from segpl.em.motion import Motion
from segpl.foundation.draws import Purpose, normal, uniform

# The limits at strength 1.
ROTATION = 0.5
"""Radians in the plane."""
TILT = 0.25
"""Radians out of the plane."""
SCALE = 0.2
"""Logarithm of the factor."""
SHIFT = 0.1
"""Share of half a side."""
WARP = 0.05
"""Displacement at the control points, as a share of half a side."""
CONTRAST = 0.25
"""Logarithm of the factor."""
BRIGHTNESS = 0.25
"""Standard deviations of the image."""
GAMMA = 0.25
"""Logarithm of the exponent."""
BLUR = 1.0
"""Standard deviation of the Gaussian, in pixels."""
COARSENESS = 1.0
"""The resolution falls by a factor of up to 1 + this."""
NOISE = 0.1
"""Standard deviations of the image."""

OPERATIONS = (
    "rotation",
    "scale",
    "shift",
    "warp",
    "contrast",
    "brightness",
    "gamma",
    "blur",
    "coarseness",
    "noise",
)
RARE = 0.25
"""Share of the images that are blurred, and of those that lose resolution."""


@dataclass(frozen=True)
class View:
    """How each image of a batch is changed. Strength 0 changes nothing, bit for bit."""

    motion: Motion
    appearance: Appearance
    strength: float

    def image(self, x: Float[Tensor, "B C *space"]) -> Float[Tensor, "B C *space"]:
        """The image as seen."""
        if not self.strength:
            return x
        x = self.appearance.before_motion(x)
        x = self.motion.apply(x, "bilinear")
        return self.appearance.after_motion(x)

    def label(self, y: Float[Tensor, "B K *space"]) -> Float[Tensor, "B K *space"]:
        """The label moved along with the image."""
        return self.motion.apply(y, "nearest") if self.strength else y


def draw_view(
    seeds: Int[Tensor, " B"],
    strength: float,
    operations: int = len(OPERATIONS),
    mirror: Sequence[int] = (),
) -> View:
    """A view of each image from its own seed, up to `strength`; half are mirrored along each axis in `mirror`.

    With fewer `operations` than there are, each image gets as many, picked at random (RandAugment).
    """
    limit = _limits(seeds, strength, operations)
    u = dict(
        zip(
            OPERATIONS, uniform(seeds, len(OPERATIONS), purpose=Purpose.VIEW).unbind(1), strict=True
        )
    )
    centred = {name: limit[name] * (2 * u[name] - 1) for name in OPERATIONS}
    rare = {name: limit[name] * (1 - u[name] / RARE).clamp(min=0) for name in OPERATIONS}
    directions = 2 * uniform(seeds, 5, purpose=Purpose.VIEW_DIRECTION) - 1
    motion = Motion(
        rotation=ROTATION * centred["rotation"],
        tilt=TILT * limit["rotation"][:, None] * directions[:, :2],
        scale=(SCALE * centred["scale"]).exp(),
        shift=SHIFT * limit["shift"][:, None] * directions[:, 2:],
        warp=WARP * limit["warp"] * u["warp"],
        sign=_signs(seeds, mirror),
        seeds=seeds,
    )
    appearance = Appearance(
        contrast=(CONTRAST * centred["contrast"]).exp(),
        brightness=BRIGHTNESS * centred["brightness"],
        gamma=(GAMMA * centred["gamma"]).exp(),
        blur=BLUR * rare["blur"],
        coarseness=1 + COARSENESS * rare["coarseness"],
        noise=NOISE * limit["noise"] * u["noise"],
        seeds=seeds,
    )
    return View(motion, appearance, strength)


def _limits(
    seeds: Int[Tensor, " B"], strength: float, operations: int
) -> dict[str, Float[Tensor, " B"]]:
    """How far each operation may go for each image: `strength`, or 0 where RandAugment did not pick it."""
    ranks = uniform(seeds, len(OPERATIONS), purpose=Purpose.OPERATIONS).argsort(1).argsort(1)
    limits = strength * (ranks < operations).float()
    return dict(zip(OPERATIONS, limits.unbind(1), strict=True))


def _signs(seeds: Int[Tensor, " B"], mirror: Sequence[int]) -> Float[Tensor, "B 3"]:
    """-1 for half of the images along each axis in `mirror`, else 1."""
    heads = uniform(seeds, 3, purpose=Purpose.MIRROR) < 0.5
    allowed = torch.tensor([axis in mirror for axis in range(3)], device=seeds.device)
    return 1 - 2 * (heads & allowed).float()


def add_noise(
    x: Float[Tensor, "B C *space"],
    seeds: Int[Tensor, " B"],
    deviation: float,
    purpose: Purpose = Purpose.WEAK_NOISE,
) -> Float[Tensor, "B C *space"]:
    """The weak view: Gaussian noise, drawn for each image from its own seed."""
    return x + deviation * normal(seeds, *x.shape[1:], purpose=purpose) if deviation else x
