"""Self-loop: pseudo-labels averaged while the network learns to solve jigsaw puzzles."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Int
from pydantic import NonNegativeFloat, PositiveInt
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from segpl.em.pseudo_labels import pseudo_label
from segpl.em.refinement import descend
from segpl.em.tensors import Images, Probabilities, Scalar
from segpl.em.types import Batch, Losses
from segpl.foundation.draws import Purpose, generator, uniform
from segpl.methods.base import Model, SemiSupervised, Share
from segpl.networks.unet import UNet

CANDIDATES = 100
"""Permutations drawn to choose the next one of a puzzle from."""


@dataclass(frozen=True)
class SelfLoop(SemiSupervised):
    """Learn from predictions averaged while solving jigsaw puzzles (Li et al., MICCAI 2020).

    As in their paper, each image gives Q puzzles. Solving one after the other updates the encoder Q
    times, the network predicts the image after each update, and the mean of the predictions (the
    self-loop uncertainty) is the soft label of an unlabelled image.

    Different here: a training step is one update, so only the first puzzle trains theta for good.
    The Q updates are made on a copy, which is thrown away. They are plain gradient descent, because
    a copy has no optimiser's memory. The loss against the soft label is the same as against a label
    and counts all voxels alike. In volumes only the planes are cut into tiles. From the SegPL paper
    come the pre-training on puzzles alone and alpha, its weight of pseudo-labels on brain tumours,
    where it compares with self-loop. The other settings are our choice: we know of no public code
    of the authors.
    """

    pretraining: Share = 0.2
    """Share of the run in which only the puzzle is learnt."""
    jigsaw: NonNegativeFloat = 0.1
    """Weight of the puzzle beside the segmentation, after pre-training."""
    permutations: PositiveInt = 24
    """Number of tile orders that the puzzle distinguishes; few, because runs are short."""
    stages: PositiveInt = 4
    """Q: the number of puzzles of an image, and of predictions that a pseudo-label averages."""
    rate: Share = 0.01
    """Size of each of the Q updates, relative to the norm of the weights. Adam moves them by 0.2 to
    2 % in a step of training."""

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
        """The puzzle alone at first; then labels, self-loop uncertainty and the puzzle."""
        alpha = self.unlabelled_weight(progress)
        puzzle_loss = self._puzzle_loss(model, batch, stage=0)
        if progress < self.pretraining:
            return Losses({"jigsaw": puzzle_loss})

        p = model["theta"](batch.x).sigmoid()
        p_l, p_u = batch.split(p)
        uncertainty = self._self_loop_uncertainty(model, batch)
        terms = {
            "labelled": self.segmentation_loss(p_l, batch.y_l, batch.counted_l),
            "unlabelled": alpha * self.segmentation_loss(p_u, uncertainty),
            "jigsaw": self.jigsaw * puzzle_loss,
        }
        return Losses(terms, y_u=pseudo_label(uncertainty, 0.5))

    def _self_loop_uncertainty(self, model: Model, batch: Batch) -> Probabilities:
        """The mean of the predictions by theta^1 to theta^Q.

        theta^q is theta^(q-1) after one update by the q-th puzzle; theta^0 is the model, which
        stays as it is.
        """
        refined = deepcopy(model)
        predictions = []
        for stage in range(self.stages):
            with torch.enable_grad():
                loss = self._puzzle_loss(refined, batch, stage)
            descend(refined, loss, self.rate)
            with torch.no_grad():
                predictions.append(refined["theta"](batch.x_u).sigmoid())
        return torch.stack(predictions).mean(0)

    def _puzzle_loss(self, model: Model, batch: Batch, stage: int) -> Scalar:
        """The cross-entropy of the tiles' order, classified from the encoder's features."""
        x = batch.x
        tiles = _tiles_per_side(x)
        orders = distant_permutations(tiles**2, self.permutations).to(x.device)
        seeds = torch.cat([batch.seeds_l, batch.seeds_u])
        u = uniform(seeds, self.stages, purpose=Purpose.PUZZLE)[:, stage]
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


@lru_cache(maxsize=8)
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
