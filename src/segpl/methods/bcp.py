"""Bidirectional copy-paste."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from pydantic import NonNegativeFloat
from torch import Tensor, nn

from segpl.em.average import averaged
from segpl.em.exchange import Sides, draw_boxes, exchange, one_way_or_other, partners
from segpl.em.pseudo_labels import pseudo_label
from segpl.em.shapes import keep_largest
from segpl.em.types import Batch, Losses
from segpl.methods.base import Model, SemiSupervised, Share
from segpl.networks.unet import UNet


@dataclass(frozen=True)
class BCP(SemiSupervised):
    """A student learns from boxes exchanged both ways between labelled and unlabelled images (Bai et al., CVPR 2023).

    As its authors have it: pre-training on labelled images, which in this package exchange boxes for
    every method; then a teacher, the student's average, labels the unlabelled images, and of each
    region its largest component is kept. The student sees mixed images only, never a whole labelled
    one. Their first and second halves of a batch, one for each direction, are here a direction drawn
    for each image.
    """

    alpha: NonNegativeFloat = 0.5
    """Weight of the pseudo-labels beside the labels in a mixed image."""
    start: Share = 0.25
    """Share of the run that is pre-training: theirs is 10,000 of 40,000 iterations."""
    decay: Share = 0.99
    """How much of the teacher stays at each step."""
    box: Share = 2 / 3
    """Side of the box, as a share of the image's."""

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """The student, and the teacher that starts as its copy."""
        student = network()
        return nn.ModuleDict({"student": student, "teacher": averaged(student, self.decay)})

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """Labels alone while pre-training; then labels and pseudo-labels side by side."""
        weight = self.unlabelled_weight(progress)
        if not weight:
            return Losses({"labelled": self.fit(model["student"](batch.x_l).sigmoid(), batch.y_l)})
        with torch.no_grad():
            y_u = pseudo_label(model["teacher"](batch.x_u).sigmoid(), 0.5)
        y_u = keep_largest(y_u, range(y_u.shape[1]))
        partner = partners(len(batch.x_u), of=len(batch.x_l))
        boxes = draw_boxes(batch.seeds_u, batch.x_u.shape[2:], Sides(self.box, self.box))
        is_true = one_way_or_other(boxes, batch.seeds_u)
        x = exchange(batch.x_l[partner], batch.x_u, is_true)
        y = exchange(batch.y_l[partner], y_u, is_true)
        p = model["student"](x).sigmoid()
        terms = {
            "labelled": self.fit(p, y, where=is_true),
            "unlabelled": weight * self.fit(p, y, where=1 - is_true),
        }
        return Losses(terms, y_u)

    def after_step(self, model: Model) -> None:
        """Move the teacher towards the student."""
        model["teacher"].update_parameters(model["student"])

    def predict(
        self, model: Model, x: Float[Tensor, "B C *space"], samples: int = 1
    ) -> Float[Tensor, "S B K *space"]:
        """The student's."""
        return super().predict(model["student"], x, samples)
