"""SegPL-EM: an averaged network labels the plain image; the network learns it in mixed images."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Float
from pydantic import Field, NonNegativeFloat, NonNegativeInt
from torch import Tensor, nn

from segpl.em.average import average_over_time
from segpl.em.exchange import (
    Mixed,
    Sides,
    choose_images,
    draw_boxes,
    exchange,
    invert_half,
    partner_indices,
)
from segpl.em.label_shapes import keep_largest, keep_nested
from segpl.em.posteriors import Posterior
from segpl.em.priors import Fixed, Prior
from segpl.em.pseudo_labels import pseudo_label
from segpl.em.sizes import SizeMatch
from segpl.em.types import Batch, Losses, counted_part
from segpl.em.views import draw_view
from segpl.methods.base import Model, Share, Thresholded
from segpl.networks.unet import UNet


class EStep(NamedTuple):
    """The pseudo-labels of the unlabelled images, and how they were made."""

    p_u: Float[Tensor, "U K *space"]
    """The averaged network's probabilities, from which they are cut."""
    y_u: Float[Tensor, "U K *space"]
    """The pseudo-labels."""
    is_sure: Float[Tensor, "U K *space"]
    """1 where the averaged network was confident, 0 elsewhere."""
    posterior: Posterior
    """p(T | x) of each image and class."""
    threshold: Float[Tensor, "U K"]
    """The T drawn from it, or the one that matches the size of the labels."""


@dataclass(frozen=True)
class SegPLEM(Thresholded):
    """EM with an averaged network in the E-step and mixed images in the M-step.

    E-step: theta^(n-1) is an average of the weights over time, which makes fewer mistakes than the
    current weights. It labels the plain image. Where the labels show a region in one piece, the
    pseudo-label keeps one piece only. Where they show how large regions are, T rises until
    pseudo-labels are no larger on average: left alone, they grow during a run.

    M-step: the network learns that label on a strong view of the image, mixed with a labelled
    image: half of the time as the surroundings of a box, half of the time as the box itself
    (bidirectional copy-paste, Bai et al., CVPR 2023). A network that learns its own label on its
    own view confirms its mistakes; beside true labels in the same image they stand out. Voxels
    that the E-step is unsure of do not count (as in FixMatch, Sohn et al., NeurIPS 2020).
    """

    alpha: NonNegativeFloat = 1.0
    """Weight of a voxel with a pseudo-label, relative to a voxel with a true label."""
    start: Share = 0.2
    """Share of the run during which unlabelled images have weight 0."""
    warm_up: Share = 0.1
    """Share of the run over which the weight then rises linearly from 0 to alpha."""
    prior: Prior = field(default_factory=Fixed)
    """The prior on the threshold T: fixed, uniform, normal, beta, categorical or confident."""
    decay: Share = 0.99
    """Decay of the averaged weights per step: 0.99 averages over about the last 100 steps, 0 is
    the current network."""
    strength: NonNegativeFloat = 1.0
    """Strength of the views that the M-step learns on; 0 is the plain image."""
    confidence: Annotated[float, Field(ge=0.5, le=1)] = 0.5
    """A pseudo-labelled voxel counts if the E-step gives its label at least this probability; 0.5
    counts all voxels."""
    exchange: Share = 1.0
    """Share of the unlabelled images that are mixed with a labelled image."""
    box: tuple[Share, Share] = (0.5, 0.8)
    """Shortest and longest side of the exchanged box, as shares of the image's side."""
    single_component: tuple[NonNegativeInt, ...] = ()
    """Regions, by number from 0, whose pseudo-labels keep only their largest component."""
    match_size: bool = False
    """Whether T is the threshold at which pseudo-labels are on average as large as labels, at
    least 0.5; the prior on T is then not used."""
    mirror: tuple[NonNegativeInt, ...] = ()
    """Axes, by number from 0, along which half of the views are mirrored."""
    nested: tuple[tuple[NonNegativeInt, NonNegativeInt], ...] = ()
    """Pairs of regions (inner, outer), by number from 0: the inner region's pseudo-label stays
    inside the outer one's."""

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """theta, its average over time, phi on the features of the average, and sizes to match."""
        model: Model = super().build(network)
        model["average"] = average_over_time(model["theta"], self.decay)
        if self.match_size:
            model["sizes"] = SizeMatch(model["theta"].regions)
        return model

    def predictor(self, model: Model) -> UNet:
        """The average, theta^(n-1)."""
        return model["average"].module

    def draws_views(self) -> bool:
        """Yes: the E-step labels the plain image."""
        return True

    def learns_from_unlabelled(self) -> bool:
        """Yes, unless alpha is 0: then phi does not learn from them either."""
        return self.alpha > 0

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """Eq. 8 on mixed images; labels alone while the unlabelled images have weight 0."""
        alpha = self.unlabelled_weight(progress)
        theta = model["theta"]
        if alpha == 0:
            return self.labelled_losses(theta, batch)

        e_step = self._e_step(model, batch)
        mixed = self._mix(batch, e_step)

        # M-step
        x = torch.cat([batch.x_l, mixed.x])
        p_l, p_m = batch.split(theta(x).sigmoid())
        voxel_weights = mixed.is_true + alpha * mixed.is_pseudo
        terms = {
            "labelled": self.segmentation_loss(p_l, batch.y_l, batch.counted_l),
            "mixed": self.segmentation_loss(p_m, mixed.y, where=voxel_weights),
            "kl": self.kl_weight * e_step.posterior.kl.mean(),
        }
        summary = self.bound.summary(e_step.posterior, e_step.p_u)
        logged = summary | self._mixed_losses(p_m, mixed, alpha)
        return Losses(terms, e_step.y_u, e_step.threshold, logged)

    def _e_step(self, model: Model, batch: Batch) -> EStep:
        """The pseudo-label (Eq. 1) of each plain image by the averaged network."""
        average = self.predictor(model)
        with torch.no_grad():
            features = average.features(batch.x_u)
            p_u = average.head(features).sigmoid()
        posterior = self.posterior(model, features, p_u)
        threshold = posterior.draw(batch.seeds_u)
        if self.match_size:
            threshold = model["sizes"](batch.counted_labels, p_u)
        y_u = pseudo_label(p_u, threshold)
        y_u = keep_largest(y_u, self.single_component)
        y_u = keep_nested(y_u, self.nested)
        is_sure = torch.maximum(p_u, 1 - p_u) >= self.confidence
        return EStep(p_u, y_u, is_sure.to(p_u.dtype), posterior, threshold)

    def _mix(self, batch: Batch, e_step: EStep) -> Mixed:
        """A strong view of each unlabelled image, mixed with a labelled image."""
        view = draw_view(batch.seeds_u, self.strength, mirror=self.mirror)
        boxes = draw_boxes(batch.seeds_u, batch.x_u.shape[2:], Sides(*self.box))
        is_true = invert_half(boxes, batch.seeds_u)
        is_true = is_true * choose_images(batch.seeds_u, self.exchange, like=boxes)
        partner = partner_indices(len(batch.x_u), partners=len(batch.x_p))
        return Mixed(
            x=exchange(batch.x_p[partner], view.image(batch.x_u), is_true),
            y=exchange(batch.y_p[partner], view.label(e_step.y_u), is_true),
            is_true=counted_part(is_true, batch.ignored_p, partner),
            is_pseudo=(1 - is_true) * view.label(e_step.is_sure),
        )

    @torch.no_grad()
    def _mixed_losses(self, p_m: Tensor, mixed: Mixed, alpha: float) -> dict[str, Tensor]:
        """The loss of the mixed images against true labels and against pseudo-labels, to log."""
        return {
            "mixed_true": self.segmentation_loss(p_m, mixed.y, where=mixed.is_true),
            "unlabelled": alpha * self.segmentation_loss(p_m, mixed.y, where=mixed.is_pseudo),
        }

    def after_step(self, model: Model) -> None:
        """Move the average towards the network."""
        model["average"].update_parameters(model["theta"])
