"""Bidirectional copy-paste."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from pydantic import NonNegativeFloat
from torch import nn

from segpl.em.average import average_over_time
from segpl.em.exchange import Sides, draw_boxes, exchange, invert_half, partner_indices
from segpl.em.label_shapes import keep_largest
from segpl.em.pseudo_labels import pseudo_label
from segpl.em.tensors import Images, Labels
from segpl.em.types import Batch, Losses, counted_part
from segpl.methods.base import Model, SemiSupervised, Share
from segpl.networks.unet import UNet


@dataclass(frozen=True)
class BCP(SemiSupervised):
    """Exchange boxes between labelled and unlabelled images, both ways (Bai et al., CVPR 2023).

    As in their paper: after pre-training on labelled images, a teacher (the student's average over
    time) labels the unlabelled images, and the largest component of each region is kept. The
    student then sees mixed images only. Pre-training exchanges boxes between labelled images, as
    for every method of this package. Their two halves of a batch, one per direction, are here a
    direction drawn for each image.

    Alpha of 0.5, a decay of 0.99, boxes of 2/3 of each side and pre-training for a quarter of the
    run are the authors' values on ACDC. They need no conversion: labels and pseudo-labels have the
    same loss, half Dice and half cross-entropy, as there.
    """

    alpha: NonNegativeFloat = 0.5
    """Weight of the pseudo-labels, relative to the labels, in a mixed image."""
    start: Share = 0.25
    """Share of the run that is pre-training; in their paper 10,000 of 40,000 iterations."""
    decay: Share = 0.99
    """Decay of the teacher's weights per step: 0.99 averages over about the last 100 steps."""
    box: Share = 2 / 3
    """Side of the exchanged box, as a share of the image's side."""

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """A student, and a teacher that starts as its copy."""
        student = network()
        teacher = average_over_time(student, self.decay)
        return nn.ModuleDict({"student": student, "teacher": teacher})

    def predictor(self, model: Model) -> nn.Module:
        """The student."""
        return model["student"]

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """Labels alone during pre-training, then labels and pseudo-labels in mixed images."""
        alpha = self.unlabelled_weight(progress)
        student = model["student"]
        if alpha == 0:
            return self.labelled_losses(student, batch)
        y_u = self._teacher_label(model, batch.x_u)

        # Mix each unlabelled image with a labelled one.
        box = Sides(self.box, self.box)
        boxes = draw_boxes(batch.seeds_u, batch.x_u.shape[2:], box)
        is_true = invert_half(boxes, batch.seeds_u)
        partner = partner_indices(len(batch.x_u), partners=len(batch.x_l))
        x = exchange(batch.x_l[partner], batch.x_u, is_true)
        y = exchange(batch.y_l[partner], y_u, is_true)

        counts_as_true = counted_part(is_true, batch.ignored_l, partner)
        p = student(x).sigmoid()
        terms = {
            "labelled": self.segmentation_loss(p, y, where=counts_as_true),
            "unlabelled": alpha * self.segmentation_loss(p, y, where=1 - is_true),
        }
        return Losses(terms, y_u)

    @torch.no_grad()
    def _teacher_label(self, model: Model, x_u: Images) -> Labels:
        """The largest component of each region in the teacher's prediction, cut at 1/2."""
        p_u = model["teacher"](x_u).sigmoid()
        y_u = pseudo_label(p_u, 0.5)
        regions = range(y_u.shape[1])
        return keep_largest(y_u, regions)

    def after_step(self, model: Model) -> None:
        """Move the teacher towards the student."""
        model["teacher"].update_parameters(model["student"])
