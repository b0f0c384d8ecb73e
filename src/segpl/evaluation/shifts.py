"""Changes of an image between the laboratory and the clinic, each with a level of strength.

A shift is a function of (x, y, predict): noise needs only x, an attack also needs the model.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
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
    """Whether it works on the windows of the network, because it calls it, or on whole volumes."""
    highest: ClassVar[float] = float("inf")
    """The strongest level that is meaningful."""
    default_levels: ClassVar[tuple[float, ...]] = (0.02, 0.04, 0.06, 0.08, 0.1)
    """The levels of a shift that is named without one."""

    def __init__(self, level: float):
        self.level = level

    def __call__(
        self,
        x: Float[Tensor, "B C *space"],
        y: Float[Tensor, "B K *space"],
        predict: Predict,
        seed: int,
    ) -> Float[Tensor, "B C *space"]:
        """The changed image. Everything random comes from `seed`, which belongs to the case."""
        if self.level == 0:
            return x
        return self.change(x, y, predict, seed)

    @abstractmethod
    def change(self, x: Tensor, y: Tensor, predict: Predict, seed: int) -> Tensor:
        """The changed image at a level above 0."""


class Clean(Shift):
    """The image as it is."""

    name = "clean"

    def change(self, x: Tensor, y: Tensor, predict: Predict, seed: int) -> Tensor:
        """Return x itself."""
        return x


class OutOfDistribution(Shift):
    """The paper's mix: gamma x' + (1 - gamma) x, where x' has other contrast and Gaussian noise."""

    name = "ood"
    highest = 1.0

    def change(self, x: Tensor, y: Tensor, predict: Predict, seed: int) -> Tensor:
        """Gamma is the level.

        Images are normalised, so contrast is a factor and the noise has standard deviation 1.
        """
        draw = torch.Generator().manual_seed(seed)
        exponent = 2 * torch.rand((), generator=draw) - 1
        contrast = 4**exponent  # from a quarter to four times
        noise = torch.randn(x.shape, generator=draw)
        changed = contrast.to(x) * x + noise.to(x)
        return torch.lerp(x, changed, self.level)


class FGSM(Shift):
    """The fast gradient sign method: one step of size epsilon along the sign of the gradient."""

    name = "fgsm"
    by_window = True

    def change(self, x: Tensor, y: Tensor, predict: Predict, seed: int) -> Tensor:
        """Epsilon is the level."""
        direction, _ = _ascent(x, y, predict)
        return x + self.level * direction


class PGD(Shift):
    """Projected gradient descent: FGSM and then smaller steps within the ball of radius epsilon."""

    name = "pgd"
    by_window = True

    def __init__(self, level: float, steps: int = 10):
        super().__init__(level)
        self.steps = steps

    def change(self, x: Tensor, y: Tensor, predict: Predict, seed: int) -> Tensor:
        """Epsilon is the level. Of all points on the path, each image keeps that of highest loss.

        The ball's ends are x -/+ epsilon as floating-point numbers, so not even rounding leaves it.
        """
        epsilon = self.level
        lowest = x - epsilon
        highest = x + epsilon
        direction, best_loss = _ascent(x, y, predict)
        best = x
        attacked = x + epsilon * direction  # FGSM's own point, so PGD is never weaker than FGSM
        for _ in range(self.steps):
            direction, loss = _ascent(attacked, y, predict)
            is_better = _per_image(loss > best_loss, like=x)
            best = torch.where(is_better, attacked, best)
            best_loss = torch.maximum(loss, best_loss)
            attacked = torch.clamp(attacked + epsilon / 4 * direction, lowest, highest)
        return best


def _ascent(x: Tensor, y: Tensor, predict: Predict) -> tuple[Tensor, Float[Tensor, " B"]]:
    """The sign of the gradient of the Dice loss with respect to x, and the loss of each image."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        p = predict(x).mean(0)
        losses = dice_per_image(p, y).mean(1)
        (gradient,) = torch.autograd.grad(losses.sum(), x)
    return gradient.sign(), losses.detach()


def _per_image(values: Tensor, like: Tensor) -> Tensor:
    """One value per image, with trailing axes to broadcast against a batch of images."""
    trailing = [1] * (like.ndim - 1)
    return values.reshape(-1, *trailing)


def parse_shifts(texts: Sequence[str]) -> list[Shift]:
    """The clean image and the shifts that the texts name, each once.

    A text is `ood=0.1`, a sweep such as `motion=1:5:5` (START:STOP:COUNT, both ends included), a
    name alone such as `motion` for its default levels, or `all`.
    """
    shifts: list[Shift] = [Clean(0.0)]
    if not texts:
        return shifts
    known = shift_types()
    seen = set()
    for text in texts:
        for shift in _parse(text, known):
            if (shift.name, shift.level) not in seen:
                seen.add((shift.name, shift.level))
                shifts.append(shift)
    return shifts


def shift_types() -> dict[str, type[Shift]]:
    """Every shift but the clean image, by name."""
    from segpl.evaluation.artefacts import ARTEFACTS  # TorchIO is slow to import

    types = (OutOfDistribution, FGSM, PGD, *ARTEFACTS)
    return {shift_type.name: shift_type for shift_type in types}


def _parse(text: str, known: dict[str, type[Shift]]) -> list[Shift]:
    """The shifts that one text names."""
    name, equals, numbers = text.partition("=")
    try:
        types = list(known.values()) if text == "all" else [known[name]]
        levels = _parse_levels(numbers) if equals else None
    except (KeyError, ValueError):
        raise UserError(
            f"--shift {text} is not a shift: write NAME, NAME=LEVEL, NAME=START:STOP:COUNT or all, "
            f"with a name of {', '.join(known)}."
        ) from None
    shifts = []
    for shift_type in types:
        for level in levels or shift_type.default_levels:
            _check_level(level, shift_type, text)
            shifts.append(shift_type(level))
    return shifts


def _check_level(level: float, shift_type: type[Shift], text: str) -> None:
    highest = shift_type.highest
    if math.isfinite(level) and 0 <= level <= highest:
        return
    end = f"to {highest:g}" if math.isfinite(highest) else "upwards"
    raise UserError(
        f"--shift {text} has no usable level: those of {shift_type.name} go from 0 {end}."
    )


def _parse_levels(text: str) -> list[float]:
    """The numbers of LEVEL or START:STOP:COUNT; a `ValueError` for anything else.

    They are rounded to six digits, as in file names: two levels never share a file.
    """
    numbers = text.split(":")
    if len(numbers) == 1:
        return [_six_digits(float(text))]
    if len(numbers) != 3:
        raise ValueError(text)
    start = float(numbers[0])
    stop = float(numbers[1])
    count = int(numbers[2])
    if not 2 <= count <= 100:
        raise ValueError(text)
    levels = []
    for index in range(count):
        share = index / (count - 1)
        levels.append(_six_digits(start + share * (stop - start)))
    return levels


def _six_digits(level: float) -> float:
    return float(f"{level:.6g}")
