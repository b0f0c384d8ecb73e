"""FixMatch for segmentation."""

from dataclasses import dataclass

import torch
from pydantic import NonNegativeFloat, PositiveInt

from segpl.em.pseudo_labels import pseudo_label
from segpl.em.types import Batch, Losses
from segpl.em.views import add_noise, draw_view
from segpl.methods.base import Model, SemiSupervised, Share


@dataclass(frozen=True)
class FixMatch(SemiSupervised):
    """Learn on a strong view what is confidently predicted on a weak one (Sohn et al., NeurIPS 2020).

    As the SegPL paper adapts it: Gaussian noise is the weak view, RandAugment the strong one. Its geometry moves the
    pseudo-label along. Two forward passes for each unlabelled image.
    """

    alpha: NonNegativeFloat = 1.0
    """Weight of the unlabelled images (FixMatch's lambda_u)."""
    noise: NonNegativeFloat = 0.1
    """Deviation of the weak view's noise; images have deviation 1."""
    strength: NonNegativeFloat = 1.0
    """Strength of the strong view."""
    operations: PositiveInt = 2
    """How many of the strong view's operations RandAugment picks for an image."""
    confidence: Share = 0.95
    """Voxels whose probability, of foreground or of background, is below this do not count; 0 counts all."""

    def draws_views(self) -> bool:
        """A weak one and a strong one."""
        return True

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """The weak view labels, the strong view learns, where the label is confident."""
        with torch.no_grad():
            p_weak = model(add_noise(batch.x_u, batch.seeds_u, self.noise)).sigmoid()
        y_u = pseudo_label(p_weak, 0.5)
        sure = (torch.maximum(p_weak, 1 - p_weak) >= self.confidence).to(p_weak)
        view = draw_view(batch.seeds_u, self.strength, self.operations)
        seen = model(torch.cat([batch.x_l, view.image(batch.x_u)])).sigmoid()
        p_l, p_strong = seen.split([len(batch.x_l), len(batch.x_u)])
        unlabelled = self.fit(p_strong, view.label(y_u), where=view.label(sure))
        return Losses(
            {
                "labelled": self.fit(p_l, batch.y_l),
                "unlabelled": self.unlabelled_weight(progress) * unlabelled,
            },
            y_u,
        )
