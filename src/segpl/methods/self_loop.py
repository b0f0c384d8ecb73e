"""Self-loop: a jigsaw puzzle as pre-training, then pseudo-labels averaged over several passes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import NonNegativeFloat, PositiveInt
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from segpl.em.pseudo_labels import pseudo_label
from segpl.em.types import Batch, Losses
from segpl.foundation.draws import Purpose, generator, uniform
from segpl.methods.base import Model, SemiSupervised, Share
from segpl.networks.unet import UNet


@dataclass(frozen=True)
class SelfLoop(SemiSupervised):
    """Solve jigsaw puzzles first, then learn from pseudo-labels averaged over passes (Li et al., MICCAI 2020).

    Their loop updates the encoder by the puzzle several times for each image and averages the predictions in between.
    One training step has one update, so here the passes differ by dropout before the last block, and the puzzle goes
    on beside the segmentation.
    """

    pretraining: Share = 0.2
    """Share of the run in which only the puzzle is learnt."""
    jigsaw: NonNegativeFloat = 0.1
    """Weight of the puzzle beside the segmentation."""
    permutations: PositiveInt = 24
    """How many orders of the tiles the puzzle has, chosen far apart."""
    passes: PositiveInt = 4
    """How many predictions a pseudo-label averages."""
    dropout: Share = 0.3
    """Share of the feature maps that a pass does not see."""

    def build(self, network: Callable[[], UNet]) -> nn.Module:
        """theta, and a classifier of the puzzle's order on its bottleneck."""
        theta = network()
        return nn.ModuleDict(
            {"theta": theta, "solver": nn.Linear(theta.widths[-1], self.permutations)}
        )

    def unlabelled_weight(self, progress: float) -> float:
        """Nothing before the puzzle has been learnt."""
        return super().unlabelled_weight(progress) if progress >= self.pretraining else 0.0

    def learns_from_unlabelled(self) -> bool:
        """Always: the puzzle is made of them, whatever alpha is."""
        return True

    def losses(self, model: Model, batch: Batch, progress: float) -> Losses:
        """The puzzle alone at first; then labels, averaged pseudo-labels, and the puzzle."""
        theta, x = model["theta"], torch.cat([batch.x_l, batch.x_u])
        begun = float(progress >= self.pretraining)
        trunk = theta.trunk(x)
        p_l, p_u = (
            theta.head(theta.last_block(trunk)).sigmoid().split([len(batch.x_l), len(batch.x_u)])
        )
        y_u = pseudo_label(
            self._averaged(theta, trunk[len(batch.x_l) :].detach(), batch.seeds_u), 0.5
        )
        puzzle = self._puzzle(model, x, torch.cat([batch.seeds_l, batch.seeds_u]))
        terms = {
            "labelled": begun * self.fit(p_l, batch.y_l),
            "unlabelled": self.unlabelled_weight(progress) * self.fit(p_u, y_u),
            "jigsaw": (self.jigsaw if begun else 1.0) * puzzle,
        }
        return Losses(terms, y_u)

    @torch.no_grad()
    def _averaged(
        self, theta: UNet, z: Float[Tensor, "U D *space"], seeds: Int[Tensor, " U"]
    ) -> Tensor:
        seen = (
            uniform(seeds, self.passes, z.shape[1], purpose=Purpose.FEATURE_DROPOUT) >= self.dropout
        ).to(z) / max(1 - self.dropout, 1e-6)
        seen = seen.reshape(*seen.shape, *[1] * (z.ndim - 2))
        found = [
            theta.head(theta.last_block(z * seen[:, place])).sigmoid()
            for place in range(self.passes)
        ]
        return torch.stack(found).mean(0)

    def _puzzle(
        self, model: Model, x: Float[Tensor, "B C *space"], seeds: Int[Tensor, " B"]
    ) -> Float[Tensor, ""]:
        """How badly the order of the tiles is guessed from the encoder's features."""
        tiles = next(n for n in (3, 4, 2, 1) if x.shape[2] % n == 0 and x.shape[3] % n == 0)
        orders = far_apart(tiles**2, self.permutations).to(x.device)
        answer = (uniform(seeds, 1, purpose=Purpose.PUZZLE)[:, 0] * len(orders)).long()
        guess = model["solver"](
            model["theta"].encode(shuffled(x, orders[answer], tiles)).flatten(2).mean(2)
        )
        return cross_entropy(guess, answer)

    def predict(
        self, model: Model, x: Float[Tensor, "B C *space"], samples: int = 1
    ) -> Float[Tensor, "S B K *space"]:
        """Theta's."""
        return super().predict(model["theta"], x, samples)


def far_apart(tiles: int, count: int) -> Int[Tensor, "N tiles"]:
    """Up to `count` orders of the tiles, each as unlike the ones before it as a hundred drawn candidates allow."""
    draw = generator(tiles, count)
    chosen = [np.arange(tiles)]
    while len(chosen) < count:
        candidates = np.stack([draw.permutation(tiles) for _ in range(100)])
        distance = np.min([(candidates != order).sum(1) for order in chosen], axis=0)
        if distance.max() == 0:  # fewer orders exist than were asked for
            break
        chosen.append(candidates[distance.argmax()])
    return torch.from_numpy(np.stack(chosen))


def shuffled(
    x: Float[Tensor, "B C *space"], orders: Int[Tensor, "B N"], tiles: int
) -> Float[Tensor, "B C *space"]:
    """Each image cut into tiles x tiles of its plane and put together in another order."""
    pieces = (
        x.unflatten(3, (tiles, -1)).unflatten(2, (tiles, -1)).transpose(3, 4).flatten(2, 3)
    )  # B C N x y ...
    mixed = torch.stack(
        [piece[:, order] for piece, order in zip(pieces, orders.to(x.device), strict=True)]
    )
    return mixed.unflatten(2, (tiles, tiles)).transpose(3, 4).flatten(2, 3).flatten(3, 4)
