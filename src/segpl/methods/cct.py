"""Cross-consistency training."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import torch
from pydantic import NonNegativeFloat
from torch import nn
from torch.nn.functional import mse_loss

from segpl.em.broadcasting import append_axes
from segpl.em.dropout import draw_dropout
from segpl.em.pseudo_labels import pseudo_label
from segpl.em.tensors import Features, Probabilities, Seeds
from segpl.em.types import Batch, Losses
from segpl.foundation.draws import Purpose, uniform
from segpl.methods.base import Model, SemiSupervised, Share
from segpl.networks.unet import UNet

AUXILIARY_DECODERS = 3
"""One sees noisy features, one sees features with dropout, one sees the background only."""


@dataclass(frozen=True)
class CCT(SemiSupervised):
    """Decoders that see perturbed features agree with the main decoder (Ouali et al., CVPR 2020).

    As in the SegPL paper, the auxiliary decoders share all of the main decoder except its last
    convolutional block. The consistency is computed on unlabelled images only.

    Alpha follows from the authors' weight of 30, which is on a squared difference averaged over the
    21 classes of a softmax: 30 / 21 for each class. A sigmoid p is a softmax over two classes, p
    and 1 - p, which differ from their targets by the same amount. So the weight of its squared
    difference is 2 * 30 / 21 = 2.86, for any number of regions: labels and consistency are both
    averaged over regions. Their weight rises over the first tenth of the run too, though not
    linearly. Three of their seven perturbations are used, with their noise of 0.3 and dropout of
    0.5.
    """

    alpha: NonNegativeFloat = 2.86
    """Weight of the consistency between the decoders; 2 * 30 / 21, from the authors' 30."""
    warm_up: Share = 0.1
    """Share of the run over which the weight rises linearly from 0 to alpha."""
    noise: NonNegativeFloat = 0.3
    """Largest change of a feature by noise, as a share of its value."""
    dropout: Share = 0.5
    """Share of the feature maps that the decoder with dropout does not see."""

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """theta, and the auxiliary decoders, which start as copies of its last block and head."""
        theta = network()
        decoders = nn.ModuleList()
        for _ in range(AUXILIARY_DECODERS):
            last_block = deepcopy(theta.last_block)
            head = deepcopy(theta.head)
            decoders.append(nn.Sequential(last_block, head))
        return nn.ModuleDict({"theta": theta, "others": decoders})

    def predictor(self, model: Model) -> nn.Module:
        """The network theta, with the main decoder."""
        return model["theta"]

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """The main decoder against the labels, and the auxiliary decoders against the main one."""
        alpha = self.unlabelled_weight(progress)
        theta = model["theta"]
        trunk = theta.trunk(batch.x)
        p = theta.head(theta.last_block(trunk)).sigmoid()
        p_l, p_u = batch.split(p)
        target = p_u.detach()

        trunk_u = trunk[len(batch.x_l) :]
        perturbed = self._perturb(trunk_u, target, batch.seeds_u)
        squared_differences = []
        for decoder, features in zip(model["others"], perturbed, strict=True):
            p_auxiliary = decoder(features).sigmoid()
            squared_differences.append(mse_loss(p_auxiliary, target))

        terms = {
            "labelled": self.segmentation_loss(p_l, batch.y_l, batch.counted_l),
            "unlabelled": alpha * torch.stack(squared_differences).mean(),
        }
        return Losses(terms, y_u=pseudo_label(target, 0.5))

    def _perturb(self, features: Features, p: Probabilities, seeds: Seeds) -> list[Features]:
        """The features with noise, with dropout, and without the predicted foreground."""
        u = uniform(seeds, *features.shape[1:], purpose=Purpose.FEATURE_NOISE)
        noise = 2 * u - 1
        noisy = features + features * self.noise * noise

        maps = features.shape[1]
        factors = draw_dropout(seeds, maps, dropout=self.dropout, like=features)
        dropped = features * append_axes(factors, like=features)

        is_background = p.amax(1, keepdim=True) <= 0.5
        masked = features * is_background
        return [noisy, dropped, masked]
