"""The baseline that never looks at an unlabelled image."""

from dataclasses import dataclass

from torch import nn

from segpl.methods.base import Method
from segpl.types import Batch, Losses


@dataclass(frozen=True)
class Supervised(Method):
    """Learn from the labelled images alone (L_L of Eq. 3)."""

    def losses(self, model: nn.Module, batch: Batch, progress: float) -> Losses:
        """f(theta(x_l), y_l)."""
        return Losses({"labelled": self.fit(model(batch.x_l).sigmoid(), batch.y_l)})
