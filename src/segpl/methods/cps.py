"""Cross pseudo supervision."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import NonNegativeFloat
from torch import Tensor, nn

from segpl.em.pseudo_labels import pseudo_label
from segpl.em.types import Batch, Losses
from segpl.methods.base import Model, SemiSupervised
from segpl.networks.unet import UNet


@dataclass(frozen=True)
class CPS(SemiSupervised):
    """Two networks that start differently teach each other by hard pseudo-labels (Chen et al., CVPR 2021).

    On labelled and unlabelled images alike, as in their paper.
    """

    alpha: NonNegativeFloat = 1.5
    """Weight of the cross supervision (their lambda)."""
    voice: Literal["both", "first", "second"] = "both"
    """Who predicts: the mean of both networks, or one of them."""

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """Two networks, each with first weights of its own."""
        return nn.ModuleList([network(), network()])

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """Each network learns the labels, and what the other makes of all images."""
        x, labelled = torch.cat([batch.x_l, batch.x_u]), len(batch.x_l)
        p_1, p_2 = (network(x).sigmoid() for network in model)
        y_1, y_2 = pseudo_label(p_1, 0.5), pseudo_label(p_2, 0.5)
        terms = {
            "labelled": self.fit(p_1[:labelled], batch.y_l) + self.fit(p_2[:labelled], batch.y_l),
            "first": self.unlabelled_weight(progress) * self.fit(p_1, y_2),
            "second": self.unlabelled_weight(progress) * self.fit(p_2, y_1),
        }
        return Losses(terms, y_1[labelled:])

    def predict(
        self, model: Model, x: Float[Tensor, "B C *space"], samples: int = 1
    ) -> Float[Tensor, "S B K *space"]:
        """The mean of the networks that have a voice."""
        chosen = {"both": model, "first": model[:1], "second": model[1:]}[self.voice]
        p = torch.stack([network(x).sigmoid() for network in chosen]).mean(0)
        return p.expand(samples, *p.shape)
