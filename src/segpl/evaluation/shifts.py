"""What can happen to an image between the laboratory and the clinic: each shift a small object with a strength.

A shift is a function of (x, y, predict): noise needs only x, an attack asks what the model makes of it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from segpl.em.objectives import dice_per_image
from segpl.foundation.errors import UserError
from segpl.inference.windows import Predict


class Shift(ABC):
    """A change of the image at a level; level 0 changes nothing, bit for bit."""

    name: ClassVar[str]
    by_window: ClassVar[bool] = False
    """Whether it changes the windows that the network sees, because it asks the network, or a volume at once."""
    highest: ClassVar[float] = float("inf")
    """The strongest level that means anything."""
    usual: ClassVar[tuple[float, ...]] = (0.02, 0.04, 0.06, 0.08, 0.1)
    """The levels of those who name none."""

    def __init__(self, level: float):
        self.level = level

    def __call__(
        self,
        x: Float[Tensor, "B C *space"],
        y: Float[Tensor, "B K *space"],
        predict: Predict,
        seed: int,
    ) -> Float[Tensor, "B C *space"]:
        """The changed image. All that is drawn comes from `seed`, which belongs to the case."""
        return self.change(x, y, predict, seed) if self.level else x

    @abstractmethod
    def change(self, x: Tensor, y: Tensor, predict: Predict, seed: int) -> Tensor:
        """The changed image at a level above 0."""


class Clean(Shift):
    """The image as it is."""

    name = "clean"

    def change(self, x: Tensor, y: Tensor, predict: Predict, seed: int) -> Tensor:
        """X."""
        return x


class OutOfDistribution(Shift):
    """The paper's mix: gamma x' + (1 - gamma) x, where x' has another contrast and Gaussian noise."""

    name = "ood"
    highest = 1.0

    def change(self, x: Tensor, y: Tensor, predict: Predict, seed: int) -> Tensor:
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

    def change(self, x: Tensor, y: Tensor, predict: Predict, seed: int) -> Tensor:
        """Epsilon is the level."""
        return x + self.level * _ascent(x, y, predict)[0]


class PGD(Shift):
    """Projected gradient descent: FGSM and then smaller steps that never leave the ball of radius epsilon."""

    name = "pgd"
    by_window = True

    def __init__(self, level: float, steps: int = 10):
        super().__init__(level)
        self.steps = steps

    def change(self, x: Tensor, y: Tensor, predict: Predict, seed: int) -> Tensor:
        """Epsilon is the level. Of all that was met on the way, each image keeps what raised its loss most.

        The ball's ends are x -/+ epsilon as floating-point numbers: no voxel goes beyond, not by a rounding.
        """
        low, high = x - self.level, x + self.level
        (ascent, highest), best = _ascent(x, y, predict), x
        moved = x + self.level * ascent  # FGSM's own point: nothing weaker is returned
        for _ in range(self.steps):
            ascent, loss = _ascent(moved, y, predict)
            better = (loss > highest).reshape(-1, *[1] * (x.ndim - 1))
            best, highest = torch.where(better, moved, best), torch.maximum(loss, highest)
            moved = torch.clamp(moved + self.level / 4 * ascent, low, high)
        return best


def _ascent(x: Tensor, y: Tensor, predict: Predict) -> tuple[Tensor, Float[Tensor, " B"]]:
    """The sign of the Dice loss's gradient, through whatever the method predicts with, and each image's loss."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        losses = dice_per_image(predict(x).mean(0), y).mean(1)
        (gradient,) = torch.autograd.grad(losses.sum(), x)
    return gradient.sign(), losses.detach()


def parse_shifts(texts: Sequence[str]) -> list[Shift]:
    """The clean image and, for each text such as `ood=0.1`, `motion=1:5:5`, `motion` or `all`, the shifts it names.

    A sweep START:STOP:COUNT has both ends. What is named twice comes once.
    """
    known = kinds() if texts else {}
    shifts = [shift for text in texts for shift in _parse(text, known)]
    return [Clean(0.0), *{(shift.name, shift.level): shift for shift in shifts}.values()]


def kinds() -> dict[str, type[Shift]]:
    """Every shift by name."""
    from segpl.evaluation.artefacts import ARTEFACTS

    return {kind.name: kind for kind in (OutOfDistribution, FGSM, PGD, *ARTEFACTS)}


def _parse(text: str, known: dict[str, type[Shift]]) -> Iterator[Shift]:
    name, given, numbers = text.partition("=")
    chosen = known.values() if text == "all" else [known[name]] if name in known else []
    try:
        levels = _levels(numbers) if given else []
    except ValueError:
        chosen = []
    if not chosen:
        raise UserError(
            f"--shift {text} is not a shift: write NAME, NAME=LEVEL, NAME=START:STOP:COUNT or all, "
            f"with a name of {', '.join(known)}."
        )
    for kind in chosen:
        for level in levels or kind.usual:
            if not (0 <= level <= kind.highest and math.isfinite(level)):
                end = f"to {kind.highest:g}" if math.isfinite(kind.highest) else "upwards"
                raise UserError(
                    f"--shift {text} has no usable level: those of {name} go from 0 {end}."
                )
            yield kind(level)


def _levels(text: str) -> list[float]:
    """The numbers of LEVEL or START:STOP:COUNT, to six digits: two levels never share a file's name."""
    start, *sweep = text.split(":")
    levels = [float(start)]
    if sweep:
        stop, count = float(sweep[0]), int(sweep[-1])
        if len(sweep) != 2 or not 2 <= count <= 100:
            raise ValueError
        levels = [levels[0] + place / (count - 1) * (stop - levels[0]) for place in range(count)]
    return [float(f"{level:.6g}") for level in levels]
