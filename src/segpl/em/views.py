"""Strong and weak views of an image.

Drawing how an image changes is separate from changing it, so the label can move along.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from segpl.em.appearance import Appearance
from segpl.em.motion import Motion
from segpl.em.tensors import Images, Labels, PerImage, Seeds
from segpl.foundation.draws import Purpose, normal, uniform

# Limits of each operation at strength 1.
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
"""Share of the images that are blurred, and share of those that lose resolution."""


@dataclass(frozen=True)
class View:
    """How each image of a batch is changed. Strength 0 changes nothing, bit for bit."""

    motion: Motion
    appearance: Appearance
    strength: float

    def image(self, x: Images) -> Images:
        """The changed images."""
        if self.strength == 0:
            return x
        x = self.appearance.before_motion(x)
        x = self.motion.apply(x, "bilinear")
        return self.appearance.after_motion(x)

    def label(self, y: Labels) -> Labels:
        """The labels, moved in the same way as the images."""
        if self.strength == 0:
            return y
        return self.motion.apply(y, "nearest")


@dataclass(frozen=True)
class _Draws:
    """The random numbers behind a view, by operation."""

    limit: dict[str, PerImage]
    """How far each operation may go: the strength, or 0 if RandAugment did not pick it."""
    u: dict[str, PerImage]
    """Uniform in [0, 1)."""

    def symmetric(self, name: str) -> PerImage:
        """Uniform between -limit and limit."""
        return self.limit[name] * (2 * self.u[name] - 1)

    def rare(self, name: str) -> PerImage:
        """0 for most images; uniform between 0 and limit for a share of `RARE`."""
        return self.limit[name] * (1 - self.u[name] / RARE).clamp(min=0)


def draw_view(
    seeds: Seeds,
    strength: float,
    operations: int = len(OPERATIONS),
    mirror: Sequence[int] = (),
) -> View:
    """A view of each image, drawn from the image's own seed, with changes up to `strength`.

    `operations` is the number of operations that each image gets, picked at random (RandAugment).
    Along each axis in `mirror`, half of the images are mirrored.
    """
    u = uniform(seeds, len(OPERATIONS), purpose=Purpose.VIEW)
    draws = _Draws(
        limit=_limits(seeds, strength, operations),
        u=_by_operation(u),
    )
    motion = _draw_motion(seeds, draws, mirror)
    appearance = _draw_appearance(seeds, draws)
    return View(motion, appearance, strength)


def _draw_motion(seeds: Seeds, draws: _Draws, mirror: Sequence[int]) -> Motion:
    directions = 2 * uniform(seeds, 5, purpose=Purpose.VIEW_DIRECTION) - 1
    return Motion(
        rotation=ROTATION * draws.symmetric("rotation"),
        tilt=TILT * draws.limit["rotation"][:, None] * directions[:, :2],
        scale=(SCALE * draws.symmetric("scale")).exp(),
        shift=SHIFT * draws.limit["shift"][:, None] * directions[:, 2:],
        warp=WARP * draws.limit["warp"] * draws.u["warp"],
        sign=_signs(seeds, mirror),
        seeds=seeds,
    )


def _draw_appearance(seeds: Seeds, draws: _Draws) -> Appearance:
    return Appearance(
        contrast=(CONTRAST * draws.symmetric("contrast")).exp(),
        brightness=BRIGHTNESS * draws.symmetric("brightness"),
        gamma=(GAMMA * draws.symmetric("gamma")).exp(),
        blur=BLUR * draws.rare("blur"),
        coarseness=1 + COARSENESS * draws.rare("coarseness"),
        noise=NOISE * draws.limit["noise"] * draws.u["noise"],
        seeds=seeds,
    )


def _limits(seeds: Seeds, strength: float, operations: int) -> dict[str, PerImage]:
    """`strength` for the operations that RandAugment picks for an image, 0 for the others."""
    drawn = uniform(seeds, len(OPERATIONS), purpose=Purpose.OPERATIONS)
    ranks = drawn.argsort(1).argsort(1)
    is_picked = (ranks < operations).float()
    return _by_operation(strength * is_picked)


def _by_operation(values: Float[Tensor, "B N"]) -> dict[str, PerImage]:
    """The columns of `values`, one for each of `OPERATIONS`."""
    return dict(zip(OPERATIONS, values.unbind(1), strict=True))


def _signs(seeds: Seeds, mirror: Sequence[int]) -> Float[Tensor, "B 3"]:
    """-1 for half of the images along each axis in `mirror`, 1 otherwise."""
    is_heads = uniform(seeds, 3, purpose=Purpose.MIRROR) < 0.5
    is_allowed = torch.tensor([axis in mirror for axis in range(3)], device=seeds.device)
    is_mirrored = is_heads & is_allowed
    return 1 - 2 * is_mirrored.float()


def add_noise(
    x: Images,
    seeds: Seeds,
    sigma: float,
    purpose: Purpose = Purpose.WEAK_NOISE,
) -> Images:
    """The weak view: Gaussian noise of standard deviation `sigma`, from each image's own seed."""
    if sigma == 0:
        return x
    return x + sigma * normal(seeds, *x.shape[1:], purpose=purpose)
