"""Mean teacher."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from pydantic import NonNegativeFloat
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from segpl.em.average import averaged
from segpl.em.pseudo_labels import pseudo_label
from segpl.em.types import Batch, Losses
from segpl.em.views import add_noise
from segpl.foundation.draws import Purpose
from segpl.methods.base import Model, SemiSupervised, Share
from segpl.networks.unet import UNet


@dataclass(frozen=True)
class MeanTeacher(SemiSupervised):
    """A student agrees with its own average over time, each under other noise (Tarvainen and Valpola, NeurIPS 2017)."""

    alpha: NonNegativeFloat = 1.0
    """Weight of the consistency."""
    warm_up: Share = 0.4
    """Share of the run over which alpha rises linearly from 0."""
    decay: Share = 0.99
    """How much of the teacher stays at each step; with 0 the teacher is the student."""
    noise: NonNegativeFloat = 0.1
    """Deviation of the noise that each sees; images have deviation 1."""

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """The student, and the teacher that starts as its copy."""
        student = network()
        return nn.ModuleDict({"student": student, "teacher": averaged(student, self.decay)})

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """Squared differences to the teacher's soft probabilities."""
        with torch.no_grad():
            target = model["teacher"](add_noise(batch.x_u, batch.seeds_u, self.noise)).sigmoid()
        noisy = add_noise(batch.x_u, batch.seeds_u, self.noise, Purpose.OTHER_NOISE)
        seen = model["student"](torch.cat([batch.x_l, noisy])).sigmoid()
        p_l, p_u = seen.split([len(batch.x_l), len(batch.x_u)])
        unlabelled = self.unlabelled_weight(progress) * mse_loss(p_u, target)
        return Losses(
            {"labelled": self.fit(p_l, batch.y_l), "unlabelled": unlabelled},
            pseudo_label(target, 0.5),
        )

    def after_step(self, model: Model) -> None:
        """The teacher follows."""
        model["teacher"].update_parameters(model["student"])

    def predict(
        self, model: Model, x: Float[Tensor, "B C *space"], samples: int = 1
    ) -> Float[Tensor, "S B K *space"]:
        """The teacher's."""
        return super().predict(model["teacher"], x, samples)
