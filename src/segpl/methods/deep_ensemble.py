"""Deep ensemble: the reference for uncertainty."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import nn

from segpl.em.tensors import Images, Probabilities
from segpl.em.types import Batch, Losses, Predicted
from segpl.foundation.errors import UserError
from segpl.methods.base import Method, Model
from segpl.networks.unet import UNet


@dataclass(frozen=True)
class DeepEnsemble(Method):
    """Members of any method with different initial weights (Lakshminarayanan et al., NeurIPS 2017).

    As in their paper, the members differ by their initial weights and by the order in which they
    see the images, and all of them learn from all images. Their adversarial training is left out:
    it is optional in their recipe, and the SegPL paper does not use it. A step has one batch for
    each member, and costs as much as one step of the base method per member.
    """

    base: Method = field(default_factory=lambda: Method.choose("supervised"))
    """The method of the members, by name, with settings of its own."""
    members: Annotated[int, Field(ge=1, le=100)] = 5
    """Number of members; 5 in their paper."""

    def __post_init__(self) -> None:
        """Refuse an objective for the ensemble: the members use that of the base method."""
        if self.objective != Method.objective:
            raise UserError(
                "deep-ensemble has no objective of its own: "
                f"use --set method.base.objective={self.objective}.",
                where=("objective",),
            )

    @classmethod
    def applicable(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings that the members have; the ensemble shares none with other methods."""
        member = Method.choose("supervised")
        return {"base": {"name": member.name(), **member.applicable(settings)}}

    @property
    def batches_per_step(self) -> int:
        """Those of the base method for each member."""
        return self.members * self.base.batches_per_step

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """The members, each with its own initial weights."""
        members = [self.base.build(network) for _ in range(self.members)]
        return nn.ModuleList(members)

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """The sum of the members' losses, each on its own part of the batch.

        Pseudo-labels, thresholds and logged values are those of the first member.
        """
        losses = []
        for member, own_batch in zip(model, batch.parts(self.members), strict=True):
            losses.append(self.base.losses(member, own_batch, progress))
        first = losses[0]
        terms = {}
        for name in first.terms:
            member_terms = [member.terms[name] for member in losses]
            terms[name] = torch.stack(member_terms).sum(0)
        return Losses(terms, first.y_u, first.threshold, first.logged)

    def uses_unlabelled(self) -> bool:
        """If the base method does."""
        return self.base.uses_unlabelled()

    def learns_from_unlabelled(self) -> bool:
        """If the base method does."""
        return self.base.learns_from_unlabelled()

    def draws_views(self) -> bool:
        """If the base method does."""
        return self.base.draws_views()

    def unlabelled_weight(self, progress: float) -> float:
        """The base method's."""
        return self.base.unlabelled_weight(progress)

    def with_alpha_times(self, factor: float) -> Method:
        """The same ensemble with the base method's alpha times `factor`."""
        return replace(self, base=self.base.with_alpha_times(factor))

    def after_step(self, model: Model) -> None:
        """The base method's, for each member."""
        for member in model:
            self.base.after_step(member)

    def cuts_at_half(self) -> bool:
        """If the base method does."""
        return self.base.cuts_at_half()

    def predict(self, model: Model, x: Images, samples: int = 1) -> Predicted:
        """The mean probability of the members, and samples.

        One sample is the mean of the members'; several are shared equally among the members, and
        ordered so that consecutive ones come from different members.
        """
        members = len(model)
        if samples == 1:
            single = [self.base.predict(member, x) for member in model]
            mean_sample = torch.stack([member.samples for member in single]).mean(0)
            return Predicted(_mean_probability(single), mean_sample)
        if samples % members != 0:
            raise UserError(
                f"{samples} samples cannot be shared equally among {members} members: "
                f"ask for a multiple of {members}."
            )
        per_member = samples // members
        several = [self.base.predict(member, x, per_member) for member in model]
        samples_by_member = torch.stack([member.samples for member in several], dim=1)
        return Predicted(_mean_probability(several), samples_by_member.flatten(0, 1))


def _mean_probability(predicted: Sequence[Predicted]) -> Probabilities:
    """The mean of the members' probabilities."""
    return torch.stack([member.p for member in predicted]).mean(0)
