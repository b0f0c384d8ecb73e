"""SegPL: pseudo-labelling as expectation-maximisation, with a fixed threshold."""

from dataclasses import dataclass

from segpl.em.priors import Probability
from segpl.em.pseudo_labels import pseudo_label
from segpl.em.types import Batch, Losses
from segpl.methods.base import Model, SemiSupervised


@dataclass(frozen=True)
class SegPL(SemiSupervised):
    """Learn from the network's own predictions, cut at a fixed threshold T (Eq. 1 to 3)."""

    threshold: Probability = 0.5
    """T: voxels whose probability exceeds it are foreground in the pseudo-label."""

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """L_SegPL = L_L + L_U (Eq. 3), with all images in one forward pass."""
        alpha = self.unlabelled_weight(progress)
        p = model(batch.x).sigmoid()
        p_l, p_u = batch.split(p)

        # E-step (Eq. 1)
        y_u = pseudo_label(p_u, self.threshold)

        # M-step (Eq. 3)
        terms = {
            "labelled": self.segmentation_loss(p_l, batch.y_l, batch.counted_l),
            "unlabelled": alpha * self.segmentation_loss(p_u, y_u),
        }
        return Losses(terms, y_u)
