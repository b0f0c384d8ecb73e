"""SegPL-EM: the averaged network labels the plain image, and the network learns that label on a changed view."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from pydantic import NonNegativeFloat
from torch import nn

from segpl.augment import draw_view
from segpl.losses import bce_loss, pseudo_label
from segpl.methods.base import Model, Share, Thresholded, watch
from segpl.networks import UNet, averaged
from segpl.priors import Prior, Uniform
from segpl.types import Batch, Losses


@dataclass(frozen=True)
class SegPLEM(Thresholded):
    """Take the E-step's theta^(n-1) seriously: an older, averaged network labels; the M-step learns on another view.

    A network that learns its own label on its own view sharpens what it already believes. Here the label comes from the
    weights averaged over time, which err less, and holds for a turned, scaled and re-contrasted view, which the network
    must first learn to see through. Nor is the label sharper than the average is sure: with T anywhere in (0, 1) its
    mean is the average's probability, and a doubtful voxel is taught as doubtful. Pseudo-labels begin when the average
    is worth listening to, and are fitted by their likelihood: Dice would weigh a false speck as much as an organ.
    """

    alpha: NonNegativeFloat = 1.0
    """Weight of the unlabelled images."""
    start: Share = 0.2
    """Share of the run before the unlabelled images count at all."""
    warm_up: Share = 0.1
    """Share of the run over which alpha then rises linearly from 0."""
    prior: Prior = field(default_factory=Uniform)
    """What is believed about T beforehand: uniform, fixed, or any of the others."""
    decay: Share = 0.99
    """How much of the average stays at each step; 0 is the network of the moment."""
    strength: NonNegativeFloat = 1.0
    """How much the M-step's view is changed; 0 is the plain image."""

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """theta, its average over time, and phi on the average's features."""
        model: Model = super().build(network)
        model["average"] = averaged(model["theta"], self.decay)
        return model

    def theta(self, model: Model) -> UNet:
        """The average labels, and it predicts."""
        return model["average"].module

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """Eq. 3 with the label of one network and view learnt by another; labels alone until the others count."""
        weight = self.unlabelled_weight(progress)
        if not weight:
            return Losses({"labelled": self.fit(model["theta"](batch.x_l).sigmoid(), batch.y_l)})
        with torch.no_grad():
            features = self.theta(model).features(batch.x_u)
            p = self.theta(model).head(features).sigmoid()
        posterior = self.posterior(model, features, p)
        threshold = posterior.draw(batch.seeds_u)
        y_u = pseudo_label(p, threshold)  # E-step
        view = draw_view(batch.seeds_u, self.strength)
        seen = model["theta"](torch.cat([batch.x_l, view.image(batch.x_u)])).sigmoid()
        p_l, p_u = seen.split([len(batch.x_l), len(batch.x_u)])
        terms = {
            "labelled": self.fit(p_l, batch.y_l),  # M-step
            "unlabelled": weight * bce_loss(p_u, view.label(y_u)),
            "kl": self.kl_weight * posterior.kl.mean(),
        }
        return Losses(terms, y_u, threshold, watch(posterior))

    def after_step(self, model: Model) -> None:
        """The average follows."""
        model["average"].update_parameters(model["theta"])
