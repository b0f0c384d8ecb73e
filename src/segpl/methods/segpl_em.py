"""SegPL-EM: the averaged network labels the plain image, and the network learns that label in another scene."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Float
from pydantic import Field, NonNegativeFloat, NonNegativeInt
from torch import Tensor, nn

from segpl.em.average import averaged
from segpl.em.exchange import Sides, draw_boxes, exchange, one_way_or_other, partners, some_images
from segpl.em.pseudo_labels import pseudo_label
from segpl.em.shapes import keep_largest, keep_nested
from segpl.em.thresholds import Fixed, Posterior, Prior
from segpl.em.types import Batch, Losses
from segpl.em.views import draw_view
from segpl.methods.base import Model, Share, Thresholded, watch
from segpl.networks.unet import UNet


class EStep(NamedTuple):
    """The pseudo-labels of the unlabelled images, and where they come from."""

    y_u: Float[Tensor, "U K *space"]
    is_sure: Float[Tensor, "U K *space"]
    """Where the network was confident."""
    posterior: Posterior
    """p(T | x)."""
    threshold: Float[Tensor, "U K"]
    """The T that was drawn from it."""


class Mixed(NamedTuple):
    """Images in which a labelled and an unlabelled image share the field of view."""

    x: Float[Tensor, "U C *space"]
    y: Float[Tensor, "U K *space"]
    """True labels beside pseudo-labels."""
    is_true: Float[Tensor, "U 1 *space"]
    """Where the label is a true one."""
    is_pseudo: Float[Tensor, "U K *space"]
    """Where it is a pseudo-label that counts."""


@dataclass(frozen=True)
class SegPLEM(Thresholded):
    """EM with an averaged network in the E-step, and boxes exchanged with labelled images in the M-step.

    E-step: theta^(n-1) is taken seriously. The weights averaged over time, which err less than those
    of the moment, label the plain image; where the labels show a region in one piece, so must the
    pseudo-label be. M-step: the network learns that label on a strongly changed view, and in an image
    that it shares with a labelled one, half of the time as the surroundings and half of the time as
    the box (bidirectional copy-paste, Bai et al., CVPR 2023). A network that learns its own label on
    its own view confirms its mistakes; beside true labels in the same image they stand out. Voxels of
    which the E-step is unsure do not count (as in FixMatch, Sohn et al., NeurIPS 2020).
    """

    alpha: NonNegativeFloat = 1.0
    """Weight of a voxel with a pseudo-label beside one with a true label."""
    start: Share = 0.2
    """Share of the run before the unlabelled images count at all."""
    warm_up: Share = 0.1
    """Share of the run over which alpha then rises linearly from 0."""
    prior: Prior = field(default_factory=Fixed)
    """What is believed about T beforehand: fixed, uniform, or any of the others."""
    decay: Share = 0.99
    """How much of the average stays at each step; 0 is the network of the moment."""
    strength: NonNegativeFloat = 1.0
    """How much the M-step's view is changed; 0 is the plain image."""
    confidence: Annotated[float, Field(ge=0.5, le=1)] = 0.5
    """Voxels count whose foreground or background has at least this probability in the E-step; 0.5 counts all."""
    exchange: Share = 1.0
    """Share of the unlabelled images that exchange a box with a labelled one."""
    box: tuple[Share, Share] = (0.5, 0.8)
    """Shortest and longest side of the box, as shares of the image's."""
    single_component: tuple[NonNegativeInt, ...] = ()
    """Regions, by number from 0, of which pseudo-labels keep the largest component only."""
    mirror: tuple[NonNegativeInt, ...] = ()
    """Axes along which half of the M-step's views are mirrored."""
    nested: tuple[tuple[NonNegativeInt, NonNegativeInt], ...] = ()
    """Pairs of regions, (inner, outer): pseudo-labels of the inner stay inside those of the outer."""

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """theta, its average over time, and phi on the average's features."""
        model: Model = super().build(network)
        model["average"] = averaged(model["theta"], self.decay)
        return model

    def theta(self, model: Model) -> UNet:
        """The average labels, and it predicts."""
        return model["average"].module

    def draws_views(self) -> bool:
        """The E-step sees the plain image."""
        return True

    def learns_from_unlabelled(self) -> bool:
        """Not with an alpha of 0: then phi does not see them either."""
        return self.alpha > 0

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """Eq. 3, the pseudo-label of one network and view learnt by another; labels alone at first."""
        weight = self.unlabelled_weight(progress)
        if not weight:
            return Losses({"labelled": self.fit(model["theta"](batch.x_l).sigmoid(), batch.y_l)})
        e_step = self._e_step(model, batch)
        mixed = self._mixed(batch, e_step)
        p = model["theta"](torch.cat([batch.x_l, mixed.x])).sigmoid()
        p_l, p_m = p.split([len(batch.x_l), len(mixed.x)])
        terms = {
            "labelled": self.fit(p_l, batch.y_l),  # M-step
            "mixed": self.fit(p_m, mixed.y, where=mixed.is_true + weight * mixed.is_pseudo),
            "kl": self.kl_weight * e_step.posterior.kl.mean(),
        }
        watched = watch(e_step.posterior) | self._parts(p_m, mixed, weight)
        return Losses(terms, e_step.y_u, e_step.threshold, watched)

    @torch.no_grad()
    def _parts(self, p_m: Tensor, mixed: Mixed, weight: float) -> dict[str, Tensor]:
        """The loss of the mixed images by whose label it is, for the log and the guard."""
        return {
            "mixed_true": self.fit(p_m, mixed.y, where=mixed.is_true),
            "unlabelled": weight * self.fit(p_m, mixed.y, where=mixed.is_pseudo),
        }

    def _e_step(self, model: Model, batch: Batch) -> EStep:
        """The average labels the plain image (Eq. 1)."""
        with torch.no_grad():
            features = self.theta(model).features(batch.x_u)
            p = self.theta(model).head(features).sigmoid()
        posterior = self.posterior(model, features, p)
        threshold = posterior.draw(batch.seeds_u)
        y_u = pseudo_label(p, threshold)
        y_u = keep_largest(y_u, self.single_component)
        y_u = keep_nested(y_u, self.nested)
        is_sure = torch.maximum(p, 1 - p) >= self.confidence
        return EStep(y_u, is_sure.to(p.dtype), posterior, threshold)

    def _mixed(self, batch: Batch, e_step: EStep) -> Mixed:
        """Views of the unlabelled images that each share the field of view with a labelled one."""
        view = draw_view(batch.seeds_u, self.strength, mirror=self.mirror)
        partner = partners(len(batch.x_u), of=len(batch.x_p))
        boxes = draw_boxes(batch.seeds_u, batch.x_u.shape[2:], Sides(*self.box))
        is_true = one_way_or_other(boxes, batch.seeds_u)
        is_true = is_true * some_images(batch.seeds_u, self.exchange, like=boxes)
        return Mixed(
            x=exchange(batch.x_p[partner], view.image(batch.x_u), is_true),
            y=exchange(batch.y_p[partner], view.label(e_step.y_u), is_true),
            is_true=is_true,
            is_pseudo=(1 - is_true) * view.label(e_step.is_sure),
        )

    def after_step(self, model: Model) -> None:
        """Move the average towards the network."""
        model["average"].update_parameters(model["theta"])
