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
    """Learn on a strong view what a weak one predicts confidently (Sohn et al., NeurIPS 2020).

    As adapted by the SegPL paper: Gaussian noise is the weak view and RandAugment the strong one.
    The pseudo-label moves along with the strong view. Each unlabelled image takes two forward
    passes.

    Alpha of 1, a confidence of 0.95 and two operations per strong view are the authors' values, and
    hold here without change because labels and pseudo-labels have the same loss. A sigmoid above
    0.95 or below 0.05 takes the place of their largest class probability. Their 7 unlabelled images
    per labelled one is the run's `ratio`. Neither paper gives a strength of the noise.
    """

    alpha: NonNegativeFloat = 1.0
    """Weight of the unlabelled images (lambda_u in their paper)."""
    noise: NonNegativeFloat = 0.1
    """Standard deviation of the weak view's noise; images have standard deviation 1."""
    strength: NonNegativeFloat = 1.0
    """Strength of the strong view; 0 is the plain image."""
    operations: PositiveInt = 2
    """Number of operations that RandAugment picks for each strong view."""
    confidence: Share = 0.95
    """A voxel counts if its pseudo-label, foreground or background, has at least this probability;
    0 counts all voxels."""

    def draws_views(self) -> bool:
        """Yes: a weak view and a strong one."""
        return True

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """The weak view is labelled, and the strong view learns the label where it is confident."""
        alpha = self.unlabelled_weight(progress)

        weak = add_noise(batch.x_u, batch.seeds_u, self.noise)
        with torch.no_grad():
            p_weak = model(weak).sigmoid()
        y_u = pseudo_label(p_weak, 0.5)
        is_sure = torch.maximum(p_weak, 1 - p_weak) >= self.confidence

        view = draw_view(batch.seeds_u, self.strength, self.operations)
        x = torch.cat([batch.x_l, view.image(batch.x_u)])
        p_l, p_strong = batch.split(model(x).sigmoid())
        y_strong = view.label(y_u)
        where = view.label(is_sure.to(p_weak))

        terms = {
            "labelled": self.segmentation_loss(p_l, batch.y_l, batch.counted_l),
            "unlabelled": alpha * self.segmentation_loss(p_strong, y_strong, where),
        }
        return Losses(terms, y_u)
