"""SegPL: pseudo-labelling as expectation-maximisation, with a fixed threshold."""

from dataclasses import dataclass

import torch

from segpl.em.pseudo_labels import pseudo_label
from segpl.em.thresholds import Probability
from segpl.em.types import Batch, Losses
from segpl.methods.base import Model, SemiSupervised


@dataclass(frozen=True)
class SegPL(SemiSupervised):
    """Learn from one's own thresholded predictions (Eq. 1 to 3)."""

    threshold: Probability = 0.5
    """T: the probability above which a voxel becomes foreground in the pseudo-label."""

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """L_SegPL (Eq. 3): both kinds of image in one forward pass."""
        p = model(torch.cat([batch.x_l, batch.x_u])).sigmoid()
        p_l, p_u = p.split([len(batch.x_l), len(batch.x_u)])
        y_u = pseudo_label(p_u, self.threshold)  # E-step, Eq. 1
        labelled = self.fit(p_l, batch.y_l)  # M-step, Eq. 3
        unlabelled = self.unlabelled_weight(progress) * self.fit(p_u, y_u)
        return Losses({"labelled": labelled, "unlabelled": unlabelled}, y_u)
