"""Deep ensemble: the reference for uncertainty."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor, nn

from segpl.em.types import Batch, Losses
from segpl.foundation.errors import UserError
from segpl.methods.base import Method, Model
from segpl.networks.unet import UNet


@dataclass(frozen=True)
class DeepEnsemble(Method):
    """Members of any method that start from different weights (Lakshminarayanan et al., NeurIPS 2017).

    They see the same images in the same order, so what they disagree about is what the first weights and their own
    draws leave open. A step costs as many of the base method's steps as there are members.
    """

    base: Method = field(default_factory=lambda: Method.choose("supervised"))
    """The method of each member, by name, with settings of its own."""
    members: PositiveInt = 5
    """How many."""

    def __post_init__(self) -> None:
        """What members learn by is their own affair: said here, it would be forgotten."""
        if self.objective != Method.objective:
            raise UserError(
                f"deep-ensemble has no objective of its own: --set method.base.objective={self.objective}.",
                where=("objective",),
            )

    @classmethod
    def adopt(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings go to the members; the ensemble has none that others share."""
        member = Method.choose("supervised")
        return {"base": {"name": member.name(), **member.adopt(settings)}}

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """Each member with first weights of its own."""
        return nn.ModuleList([self.base.build(network) for _ in range(self.members)])

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """The members' losses, added up: each member's gradient is its own."""
        shifted = [
            batch._replace(seeds_l=batch.seeds_l + place, seeds_u=batch.seeds_u + place)
            for place in range(len(model))
        ]
        each = [
            self.base.losses(member, own, progress)
            for member, own in zip(model, shifted, strict=True)
        ]
        terms = {
            name: torch.stack([one.terms[name] for one in each]).sum(0) for name in each[0].terms
        }
        return Losses(terms, each[0].y_u, each[0].threshold, each[0].watched)

    def uses_unlabelled(self) -> bool:
        """If its members do."""
        return self.base.uses_unlabelled()

    def learns_from_unlabelled(self) -> bool:
        """If its members do."""
        return self.base.learns_from_unlabelled()

    def draws_views(self) -> bool:
        """If its members do."""
        return self.base.draws_views()

    def unlabelled_weight(self, progress: float) -> float:
        """The base method's."""
        return self.base.unlabelled_weight(progress)

    def cautious(self, factor: float) -> Method:
        """All members listen less."""
        return replace(self, base=self.base.cautious(factor))

    def after_step(self, model: Model) -> None:
        """Whatever the base method does."""
        for member in model:
            self.base.after_step(member)

    def predict(
        self, model: Model, x: Float[Tensor, "B C *space"], samples: int = 1
    ) -> Float[Tensor, "S B K *space"]:
        """The mean of the members or, for several samples, member after member with as many draws as needed."""
        if samples == 1:
            return torch.stack([self.base.predict(member, x)[0] for member in model]).mean(
                0, keepdim=True
            )
        if samples % len(model):
            raise UserError(
                f"{samples} samples of {len(model)} members would favour some: ask for {len(model)}."
            )
        drawn = torch.stack(
            [self.base.predict(member, x, samples // len(model)) for member in model], dim=1
        )
        return drawn.flatten(0, 1)
