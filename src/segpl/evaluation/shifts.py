"""What can happen to an image between the laboratory and the clinic: each shift a small object with a strength.

A shift is a function of (x, y, predict): noise needs only x, an attack asks what the model makes of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from segpl.errors import UserError
from segpl.losses import dice_loss
from segpl.windows import Predict


class Shift(ABC):
    """A change of the image at a level; level 0 changes nothing, bit for bit."""

    name: ClassVar[str]
    by_window: ClassVar[bool] = False
    """Whether it changes the windows that the network sees, because it asks the network, or a volume at once."""

    def __init__(self, level: float):
        self.level = level

    @abstractmethod
    def __call__(
        self, x: Float[Tensor, "B C *space"], y: Float[Tensor, "B K *space"], predict: Predict, seed: int
    ) -> Float[Tensor, "B C *space"]:
        """The changed image. All that is drawn comes from `seed`, which belongs to the case."""


class Clean(Shift):
    """The image as it is."""

    name = "clean"

    def __call__(self, x: Tensor, y: Tensor, predict: Predict, seed: int) -> Tensor:
        """X."""
        return x


class OutOfDistribution(Shift):
    """The paper's mix: gamma x' + (1 - gamma) x, where x' has another contrast and Gaussian noise."""

    name = "ood"

    def __call__(self, x: Tensor, y: Tensor, predict: Predict, seed: int) -> Tensor:
        """Gamma is the level. Images are normalised, so contrast is a factor and the noise has deviation 1."""
        draw = torch.Generator().manual_seed(seed)
        contrast = 4 ** (2 * torch.rand((), generator=draw) - 1)  # a quarter to four times
        noise = torch.randn(x.shape, generator=draw)
        changed = contrast.to(x) * x + noise.to(x)
        return torch.lerp(x, changed, self.level)


class FGSM(Shift):
    """The fast gradient sign method: one step of size epsilon along the sign of the loss's gradient."""

    name = "fgsm"
    by_window = True

    def __call__(self, x: Tensor, y: Tensor, predict: Predict, seed: int) -> Tensor:
        """Epsilon is the level."""
        return x + self.level * _ascent(x, y, predict)


class PGD(Shift):
    """Projected gradient descent: ten smaller FGSM steps that never leave the ball of radius epsilon."""

    name = "pgd"
    by_window = True
    STEPS = 10

    def __call__(self, x: Tensor, y: Tensor, predict: Predict, seed: int) -> Tensor:
        """Epsilon is the level; each step is a quarter of it."""
        moved = x
        for _ in range(self.STEPS):
            moved = moved + self.level / 4 * _ascent(moved, y, predict)
            moved = x + (moved - x).clamp(-self.level, self.level)
        return moved


def _ascent(x: Tensor, y: Tensor, predict: Predict) -> Tensor:
    """The sign of the Dice loss's gradient with respect to the image, through whatever the method predicts with."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(dice_loss(predict(x).mean(0), y), x)
    return gradient.sign()


SHIFTS: dict[str, Callable[[float], Shift]] = {shift.name: shift for shift in (OutOfDistribution, FGSM, PGD)}


def parse_shifts(texts: Sequence[str]) -> list[Shift]:
    """The clean image and, for each text such as `ood=0.1`, the shift it names."""
    return [Clean(0.0), *(_parse(text) for text in dict.fromkeys(texts))]


def _parse(text: str) -> Shift:
    name, _, level = text.partition("=")
    try:
        shift = SHIFTS[name](float(level))
    except (KeyError, ValueError):
        known = ", ".join(SHIFTS)
        raise UserError(f"--shift {text} is not a shift: write ood=0.1 or the like, with a name of {known}.") from None
    if not 0 <= shift.level < float("inf"):
        raise UserError(f"--shift {text} has no usable level: give a number of 0 or more.")
    return shift
