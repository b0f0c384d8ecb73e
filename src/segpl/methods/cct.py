"""Cross-consistency training."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from pydantic import NonNegativeFloat
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from segpl.em.pseudo_labels import pseudo_label
from segpl.em.types import Batch, Losses
from segpl.foundation.draws import Purpose, uniform
from segpl.methods.base import Model, SemiSupervised, Share
from segpl.networks.unet import UNet


@dataclass(frozen=True)
class CCT(SemiSupervised):
    """Decoders that see perturbed features agree with the one that sees them whole (Ouali et al., CVPR 2020).

    As the SegPL paper shrinks it: the auxiliary decoders share all of the main one but its last convolutional block.
    One sees noise, one dropout, one has the predicted foreground masked out. Consistency on unlabelled images only.
    """

    alpha: NonNegativeFloat = 1.0
    """Weight of the consistency."""
    warm_up: Share = 0.1
    """Share of the run over which alpha rises linearly from 0."""
    noise: NonNegativeFloat = 0.3
    """A feature is changed by up to this share of itself."""
    dropout: Share = 0.5
    """Share of the feature maps that one decoder does not see."""

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """theta, and three last blocks with their heads, which start as copies of theta's."""
        theta = network()
        others = [nn.Sequential(deepcopy(theta.last_block), deepcopy(theta.head)) for _ in range(3)]
        return nn.ModuleDict({"theta": theta, "others": nn.ModuleList(others)})

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """The labels fitted by the main decoder, squared differences between it and the others."""
        theta = model["theta"]
        trunk = theta.trunk(torch.cat([batch.x_l, batch.x_u]))
        p_l, p_u = (
            theta.head(theta.last_block(trunk)).sigmoid().split([len(batch.x_l), len(batch.x_u)])
        )
        target = p_u.detach()
        views = self._perturbed(trunk[len(batch.x_l) :], target, batch.seeds_u)
        apart = [
            mse_loss(other(view).sigmoid(), target)
            for other, view in zip(model["others"], views, strict=True)
        ]
        unlabelled = self.unlabelled_weight(progress) * torch.stack(apart).mean()
        return Losses(
            {"labelled": self.fit(p_l, batch.y_l), "unlabelled": unlabelled},
            pseudo_label(target, 0.5),
        )

    def _perturbed(
        self,
        z: Float[Tensor, "U D *space"],
        p: Float[Tensor, "U K *space"],
        seeds: Int[Tensor, " U"],
    ) -> Iterator[Tensor]:
        yield z + z * self.noise * (
            2 * uniform(seeds, *z.shape[1:], purpose=Purpose.FEATURE_NOISE) - 1
        )
        kept = (uniform(seeds, z.shape[1], purpose=Purpose.FEATURE_DROPOUT) >= self.dropout).to(
            z
        ) / max(1 - self.dropout, 1e-6)
        yield z * kept.reshape(*kept.shape, *[1] * (z.ndim - 2))
        yield z * (p.amax(1, keepdim=True) <= 0.5)

    def predict(
        self, model: Model, x: Float[Tensor, "B C *space"], samples: int = 1
    ) -> Float[Tensor, "S B K *space"]:
        """The main decoder's."""
        return super().predict(model["theta"], x, samples)
