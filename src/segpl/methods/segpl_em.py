"""SegPL-EM: the averaged network labels the plain image, and the network learns that label in another scene."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from pydantic import NonNegativeFloat, NonNegativeInt
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


@dataclass(frozen=True)
class SegPLEM(Thresholded):
    """EM with an averaged network in the E-step, and boxes exchanged with labelled images in the M-step.

    E-step: theta^(n-1) is taken seriously. The weights averaged over time, which err less than those
    of the moment, label the plain image; where the labels show a region in one piece, so must the
    pseudo-label be. M-step: the network learns that label on a strongly changed view, and in an image
    that it shares with a labelled one, half of the time as the surroundings and half of the time as
    the box (bidirectional copy-paste, Bai et al., CVPR 2023). A network that learns its own label on
    its own view confirms its mistakes; beside true labels in the same image they stand out.
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
        y_u, posterior, threshold = self._e_step(model, batch)
        x_m, y_m, is_true = self._mixed(batch, y_u)
        p = model["theta"](torch.cat([batch.x_l, x_m])).sigmoid()
        p_l, p_m = p.split([len(batch.x_l), len(x_m)])
        terms = {
            "labelled": self.fit(p_l, batch.y_l),  # M-step
            "mixed": self.fit(p_m, y_m, where=is_true + weight * (1 - is_true)),
            "kl": self.kl_weight * posterior.kl.mean(),
        }
        return Losses(terms, y_u, threshold, watch(posterior) | self._parts(p_m, y_m, is_true, weight))

    @torch.no_grad()
    def _parts(self, p_m: Tensor, y_m: Tensor, is_true: Tensor, weight: float) -> dict[str, Tensor]:
        """The loss of the mixed images by whose label it is, for the log and the guard."""
        return {
            "mixed_true": self.fit(p_m, y_m, where=is_true),
            "unlabelled": weight * self.fit(p_m, y_m, where=1 - is_true),
        }

    def _e_step(self, model: Model, batch: Batch) -> tuple[Tensor, Posterior, Tensor]:
        """The average's pseudo-label of the plain image (Eq. 1), with p(T | x) and the T that was drawn from it."""
        with torch.no_grad():
            features = self.theta(model).features(batch.x_u)
            p = self.theta(model).head(features).sigmoid()
        posterior = self.posterior(model, features, p)
        threshold = posterior.draw(batch.seeds_u)
        y_u = pseudo_label(p, threshold)
        y_u = keep_largest(y_u, self.single_component)
        y_u = keep_nested(y_u, self.nested)
        return y_u, posterior, threshold

    def _mixed(
        self, batch: Batch, y_u: Float[Tensor, "U K *space"]
    ) -> tuple[Tensor, Tensor, Float[Tensor, "U 1 *space"]]:
        """Views of the unlabelled images that each share the field of view with a labelled one.

        Images, labels beside pseudo-labels, and where the label is a true one.
        """
        view = draw_view(batch.seeds_u, self.strength, mirror=self.mirror)
        partner = partners(len(batch.x_u), of=len(batch.x_p))
        boxes = draw_boxes(batch.seeds_u, batch.x_u.shape[2:], Sides(*self.box))
        is_true = one_way_or_other(boxes, batch.seeds_u)
        is_true = is_true * some_images(batch.seeds_u, self.exchange, like=boxes)
        x_m = exchange(batch.x_p[partner], view.image(batch.x_u), is_true)
        y_m = exchange(batch.y_p[partner], view.label(y_u), is_true)
        return x_m, y_m, is_true

    def after_step(self, model: Model) -> None:
        """Move the average towards the network."""
        model["average"].update_parameters(model["theta"])
