"""Cross pseudo supervision."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import NonNegativeFloat
from torch import nn

from segpl.em.pseudo_labels import pseudo_label
from segpl.em.tensors import Images
from segpl.em.types import Batch, Losses, Predicted
from segpl.methods.base import Model, SemiSupervised
from segpl.networks.unet import UNet


@dataclass(frozen=True)
class CPS(SemiSupervised):
    """Two networks learn from each other's pseudo-labels (Chen et al., CVPR 2021).

    They start from different weights, and teach each other on labelled and unlabelled images
    alike, as in their paper. Alpha is their lambda of 1.5 for PASCAL VOC (Cityscapes: 6) without
    change: labels and pseudo-labels have the same loss, so no scale has to be converted. Their
    CutMix variant is left out, as in the SegPL paper.
    """

    alpha: NonNegativeFloat = 1.5
    """Weight of the cross supervision (lambda in their paper)."""
    voice: Literal["both", "first", "second"] = "both"
    """The network that predicts: the first, the second, or both (their mean). The authors use the
    first."""

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """Two networks with different initial weights."""
        return nn.ModuleList([network(), network()])

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """Each network learns the labels, and the other network's pseudo-labels of all images."""
        alpha = self.unlabelled_weight(progress)
        first, second = model
        x = batch.x
        p_1 = first(x).sigmoid()
        p_2 = second(x).sigmoid()
        y_1 = pseudo_label(p_1, 0.5)
        y_2 = pseudo_label(p_2, 0.5)

        labelled = len(batch.x_l)
        loss_1 = self.segmentation_loss(p_1[:labelled], batch.y_l, batch.counted_l)
        loss_2 = self.segmentation_loss(p_2[:labelled], batch.y_l, batch.counted_l)
        terms = {
            "labelled": loss_1 + loss_2,
            "first": alpha * self.segmentation_loss(p_1, y_2),
            "second": alpha * self.segmentation_loss(p_2, y_1),
        }
        return Losses(terms, y_u=y_1[labelled:])

    def predict(self, model: Model, x: Images, samples: int = 1) -> Predicted:
        """The mean probability of the networks that `voice` chooses."""
        first, second = model
        voices = {"both": [first, second], "first": [first], "second": [second]}
        networks = voices[self.voice]
        predictions = [network(x).sigmoid() for network in networks]
        p = torch.stack(predictions).mean(0)
        return Predicted(p, p.expand(samples, *p.shape))
