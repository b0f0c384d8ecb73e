"""The threshold at which pseudo-labels are, on average, as large as labels."""

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn

from segpl.em.objectives import sum_over_processes

THRESHOLDS = 50
"""How many thresholds are compared: the middles of as many equal parts of (0, 1)."""
LOWEST = 0.5
"""T is never below this. With a lower T, foreground would be invented in scans without any."""
HIGHEST = 0.95
"""T is never above this, so that pseudo-labels cannot vanish."""
DECAY = 0.98
"""Decay of the running means per step: they look back over about 50 steps."""


class SizeMatch(nn.Module):
    """Running means of how large labels are, and pseudo-labels at each of several thresholds.

    Sizes are shares of the voxels of an image. Few steps show too few images to compare them, hence
    the running means. They are part of the model, so a resumed run goes on with them.
    """

    label_share: Float[Tensor, " K"]
    """The mean share of each region in the labels."""
    share_above: Float[Tensor, "K T"]
    """The mean share of voxels whose probability exceeds each threshold."""
    updates: Float[Tensor, ""]
    thresholds: Float[Tensor, " T"]

    def __init__(self, regions: int):
        super().__init__()
        thresholds = (torch.arange(THRESHOLDS) + 0.5) / THRESHOLDS
        self.register_buffer("label_share", torch.zeros(regions))
        self.register_buffer("share_above", torch.zeros(regions, THRESHOLDS))
        self.register_buffer("updates", torch.zeros(()))
        self.register_buffer("thresholds", thresholds, persistent=False)

    def forward(
        self,
        y_l: Float[Tensor, "L K *space"],
        p_u: Float[Tensor, "U K *space"],
    ) -> Float[Tensor, "U K"]:
        """T of each unlabelled image and region, after the step has been added to the means.

        Pseudo-labels that are only looked at, without a gradient to learn by, change no mean.
        """
        if torch.is_grad_enabled():
            self.update(y_l, p_u)
        return self.threshold().expand(p_u.shape[:2])

    @torch.no_grad()
    def update(
        self,
        y_l: Float[Tensor, "L K *space"],
        p_u: Float[Tensor, "U K *space"],
    ) -> None:
        """Add the labels and the unlabelled images' probabilities of one step to the means."""
        label_share = _share(y_l)
        above_each = [_share(p_u > threshold) for threshold in self.thresholds]
        share_above = torch.stack(above_each, dim=1)
        self.updates += 1
        step = max(1 - DECAY, 1 / float(self.updates))
        self.label_share.lerp_(_mean_over_processes(label_share), step)
        self.share_above.lerp_(_mean_over_processes(share_above), step)

    def threshold(self) -> Float[Tensor, " K"]:
        """T of each region: where the two means are nearest to each other, within the limits."""
        distance = (self.share_above - self.label_share[:, None]).abs()
        nearest = self.thresholds[distance.argmin(dim=1)]
        return nearest.clamp(LOWEST, HIGHEST)


def _share(masks: Tensor) -> Float[Tensor, " K"]:
    """The share of the voxels of all images that each of the K channels marks."""
    all_but_class = (0, *range(2, masks.ndim))
    return masks.float().mean(all_but_class)


def _mean_over_processes(value: Tensor) -> Tensor:
    """The mean over all processes, which have equally many images."""
    processes = dist.get_world_size() if dist.is_initialized() else 1
    return sum_over_processes(value) / processes
