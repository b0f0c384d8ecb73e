"""The baseline that never looks at an unlabelled image."""

from dataclasses import dataclass

from segpl.em.types import Batch, Losses
from segpl.methods.base import Method, Model


@dataclass(frozen=True)
class Supervised(Method):
    """Learn from the labelled images alone (L_L of Eq. 3)."""

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """L_L = f(theta(x_l), y_l)."""
        p_l = model(batch.x_l).sigmoid()
        return Losses({"labelled": self.segmentation_loss(p_l, batch.y_l, batch.counted_l)})
