"""What flows between the stages: a batch into a method, its losses out."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Batch(NamedTuple):
    """The paper's X_L, Y_L and X_U of one step."""

    x_l: Float[Tensor, "L C *space"]
    y_l: Float[Tensor, "L K *space"]
    """K binary channels: nested regions are K sigmoids."""
    x_p: Float[Tensor, "L C *space"]
    """A second labelled image for each of the first: the partner that boxes are exchanged with."""
    y_p: Float[Tensor, "L K *space"]
    """The partners' labels."""
    x_u: Float[Tensor, "U C *space"]
    """Never comes with a label: there is no room for one."""
    seeds_l: Int[Tensor, " L"]
    """One number an image: all that a method draws for the image in this step comes from it."""
    seeds_u: Int[Tensor, " U"]
    """The same for the unlabelled images."""


TRUE = ("labelled", "mixed_true")
"""Losses whose target is a true label: of labelled images, and of the labelled part of mixed ones."""
TAUGHT = ("unlabelled", "first", "second")
"""Losses whose target is a pseudo-label: one network's, or each of two networks'."""


@dataclass(frozen=True)
class Losses:
    """What a method says about one batch: the terms that are minimised, and what it made on the way."""

    terms: dict[str, Float[Tensor, ""]]
    """Their sum is the training loss."""
    y_u: Float[Tensor, "U K *space"] | None = None
    """The pseudo-label (Eq. 1) of each unlabelled image, for methods that make one."""
    threshold: Float[Tensor, "U K"] | None = None
    """T of each unlabelled image and class, for methods that draw one."""

    watched: dict[str, Float[Tensor, ""]] = field(default_factory=dict)
    """Numbers that are only logged."""

    @property
    def pull(self) -> Float[Tensor, ""]:
        """How hard the pseudo-labels pull beside the labels: what teaches phi, or a puzzle, is neither."""
        return self._sum(TAUGHT) / self._sum(TRUE).clamp(min=1e-6)

    def _sum(self, names: tuple[str, ...]) -> Float[Tensor, ""]:
        """The sum of those losses that are there, whether they are minimised or part of what is."""
        known = self.terms | self.watched
        there = [known[name] for name in names if name in known]
        return torch.stack(there).sum() if there else torch.tensor(0.0)

    @property
    def total(self) -> Float[Tensor, ""]:
        """The loss that is minimised (Eq. 3, Eq. 8)."""
        return sum(self.terms.values(), start=next(iter(self.terms.values())).new_zeros(()))
