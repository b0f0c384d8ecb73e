"""Mean teacher."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from pydantic import NonNegativeFloat
from torch import nn
from torch.nn.functional import mse_loss

from segpl.em.average import average_over_time
from segpl.em.pseudo_labels import pseudo_label
from segpl.em.types import Batch, Losses
from segpl.em.views import add_noise
from segpl.foundation.draws import Purpose
from segpl.methods.base import Model, SemiSupervised, Share
from segpl.networks.unet import UNet


@dataclass(frozen=True)
class MeanTeacher(SemiSupervised):
    """A student agrees with its own average over time (Tarvainen and Valpola, NeurIPS 2017).

    Student and teacher see the same image with different noise.

    The authors' weight on CIFAR-10 is 100 on the mean over ten classes, which is 2 * 100 / 10 = 20
    for a sigmoid. Here 10 and 100 were worse than 1 on validation subjects (docs/understanding.md),
    so alpha is 1. Their weight rises for 40,000 of 150,000 steps, and is at one half after 17 % of
    the run; a linear rise over 0.4 of the run is there after 20 %. Their decay of 0.99 at first and
    0.999 later would average over more steps than our runs can spare, so 0.99 stays. Their noise
    of 0.15 comes with dropout and translation; here the noise is 0.1.
    """

    alpha: NonNegativeFloat = 1.0
    """Weight of the consistency between student and teacher."""
    warm_up: Share = 0.4
    """Share of the run over which the weight rises linearly from 0 to alpha."""
    decay: Share = 0.99
    """Decay of the teacher's weights per step: 0.99 averages over about the last 100 steps, 0 is
    the student itself."""
    noise: NonNegativeFloat = 0.1
    """Standard deviation of the noise on the images, which have standard deviation 1."""

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """The student, and the teacher that starts with the same weights."""
        student = network()
        teacher = average_over_time(student, self.decay)
        return nn.ModuleDict({"student": student, "teacher": teacher})

    def predictor(self, model: Model) -> nn.Module:
        """The teacher."""
        return model["teacher"]

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """The student against the labels, and against the teacher's probabilities."""
        alpha = self.unlabelled_weight(progress)

        x_teacher = add_noise(batch.x_u, batch.seeds_u, self.noise)
        with torch.no_grad():
            target = model["teacher"](x_teacher).sigmoid()

        x_student = add_noise(batch.x_u, batch.seeds_u, self.noise, Purpose.OTHER_NOISE)
        x = torch.cat([batch.x_l, x_student])
        p = model["student"](x).sigmoid()
        p_l, p_u = batch.split(p)

        terms = {
            "labelled": self.segmentation_loss(p_l, batch.y_l, batch.counted_l),
            "unlabelled": alpha * mse_loss(p_u, target),
        }
        return Losses(terms, y_u=pseudo_label(target, 0.5))

    def after_step(self, model: Model) -> None:
        """Move the teacher towards the student."""
        model["teacher"].update_parameters(model["student"])
