"""Self-loop: a jigsaw puzzle as pre-training, then pseudo-labels averaged over several passes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from pydantic import NonNegativeFloat, PositiveInt
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from segpl.em.broadcasting import append_axes
from segpl.em.dropout import draw_dropout
from segpl.em.pseudo_labels import pseudo_label
from segpl.em.tensors import Features, Images, Probabilities, Scalar, Seeds
from segpl.em.types import Batch, Losses
from segpl.foundation.draws import Purpose, generator, uniform
from segpl.methods.base import Model, SemiSupervised, Share
from segpl.networks.unet import UNet

CANDIDATES = 100
"""Permutations drawn to choose the next one of a puzzle from."""


@dataclass(frozen=True)
class SelfLoop(SemiSupervised):
    """Solve jigsaw puzzles, then learn from averaged pseudo-labels (Li et al., MICCAI 2020).

    In their paper the puzzle updates the encoder several times for each image, and the predictions
    in between are averaged. A training step here has one update, so the averaged passes differ by
    dropout before the last block instead, and the puzzle goes on beside the segmentation.
    """

    pretraining: Share = 0.2
    """Share of the run in which only the puzzle is learnt."""
    jigsaw: NonNegativeFloat = 0.1
    """Weight of the puzzle beside the segmentation, after pre-training."""
    permutations: PositiveInt = 24
    """Number of tile orders that the puzzle distinguishes."""
    passes: PositiveInt = 4
    """Number of predictions that a pseudo-label averages."""
    dropout: Share = 0.3
    """Share of the feature maps that each of these predictions does not see."""

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """theta, and a classifier of the order of the tiles on its bottleneck."""
        theta = network()
        solver = nn.Linear(theta.widths[-1], self.permutations)
        return nn.ModuleDict({"theta": theta, "solver": solver})

    def predictor(self, model: Model) -> nn.Module:
        """The network theta."""
        return model["theta"]

    def unlabelled_weight(self, progress: float) -> float:
        """0 during pre-training."""
        if progress < self.pretraining:
            return 0.0
        return super().unlabelled_weight(progress)

    def learns_from_unlabelled(self) -> bool:
        """Yes: the puzzle uses them, whatever alpha is."""
        return True

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """The puzzle alone at first; then labels, averaged pseudo-labels and the puzzle."""
        alpha = self.unlabelled_weight(progress)
        is_pretraining = progress < self.pretraining
        labelled_weight = 0.0 if is_pretraining else 1.0
        jigsaw_weight = 1.0 if is_pretraining else self.jigsaw

        theta = model["theta"]
        x = batch.x
        trunk = theta.trunk(x)
        p = theta.head(theta.last_block(trunk)).sigmoid()
        p_l, p_u = batch.split(p)
        trunk_u = trunk[len(batch.x_l) :].detach()
        p_average = self._average_prediction(theta, trunk_u, batch.seeds_u)
        y_u = pseudo_label(p_average, 0.5)
        seeds = torch.cat([batch.seeds_l, batch.seeds_u])

        terms = {
            "labelled": labelled_weight * self.segmentation_loss(p_l, batch.y_l),
            "unlabelled": alpha * self.segmentation_loss(p_u, y_u),
            "jigsaw": jigsaw_weight * self._jigsaw_loss(model, x, seeds),
        }
        return Losses(terms, y_u)

    @torch.no_grad()
    def _average_prediction(self, theta: UNet, trunk: Features, seeds: Seeds) -> Probabilities:
        """The mean prediction over several passes, each with its own dropout."""
        maps = trunk.shape[1]
        factors = draw_dropout(seeds, self.passes, maps, dropout=self.dropout, like=trunk)
        predictions = []
        for index in range(self.passes):
            dropped = trunk * append_axes(factors[:, index], like=trunk)
            predictions.append(theta.head(theta.last_block(dropped)).sigmoid())
        return torch.stack(predictions).mean(0)

    def _jigsaw_loss(self, model: Model, x: Images, seeds: Seeds) -> Scalar:
        """The cross-entropy of the tile order, classified from the encoder's features."""
        tiles = _tiles_per_side(x)
        orders = distant_permutations(tiles**2, self.permutations).to(x.device)
        u = uniform(seeds, 1, purpose=Purpose.PUZZLE)[:, 0]
        answer = (u * len(orders)).long()
        puzzle = shuffle_tiles(x, orders[answer], tiles)
        bottleneck = model["theta"].encode(puzzle).flatten(2).mean(2)
        return cross_entropy(model["solver"](bottleneck), answer)


def _tiles_per_side(x: Images) -> int:
    """3 tiles along each axis of the plane, or 4, 2 or 1 if the plane is not divisible by 3."""
    width, height = x.shape[2:4]
    for tiles in (3, 4, 2):
        if width % tiles == 0 and height % tiles == 0:
            return tiles
    return 1


def distant_permutations(tiles: int, count: int) -> Int[Tensor, "N tiles"]:
    """Up to `count` orders of the tiles, chosen one by one to differ from those before.

    Each is the best of `CANDIDATES` random ones: the one with the most tiles in another place than
    in the chosen order nearest to it. There are fewer than `count` if no more orders exist.
    """
    draw = generator(tiles, count)
    chosen = [np.arange(tiles)]
    while len(chosen) < count:
        candidates = np.stack([draw.permutation(tiles) for _ in range(CANDIDATES)])
        distances = [(candidates != order).sum(1) for order in chosen]
        nearest = np.min(distances, axis=0)
        if nearest.max() == 0:
            break
        chosen.append(candidates[nearest.argmax()])
    return torch.from_numpy(np.stack(chosen))


def shuffle_tiles(x: Images, orders: Int[Tensor, "B N"], tiles: int) -> Images:
    """Each image with the tiles x tiles pieces of its plane in another order."""
    rows_and_columns = x.unflatten(3, (tiles, -1)).unflatten(2, (tiles, -1))
    pieces = rows_and_columns.transpose(3, 4).flatten(2, 3)  # B C N x y ...
    shuffled = []
    for image, order in zip(pieces, orders.to(x.device), strict=True):
        shuffled.append(image[:, order])
    rows_and_columns = torch.stack(shuffled).unflatten(2, (tiles, tiles))
    return rows_and_columns.transpose(3, 4).flatten(2, 3).flatten(3, 4)
