"""The two networks of the paper: theta, a U-Net, and phi, which reads a threshold's posterior off theta's features."""

from collections.abc import Sequence
from math import log
from typing import Any

import torch
from jaxtyping import Float
from monai.networks.nets import DynUNet
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

RARE = 0.1
"""The share of foreground that a fresh network expects of each region.

Of one half, as its biases of 0 would have it, a network must first unlearn, which took one seed of two half of a run.
"""


def strides(patch: Sequence[int], levels: int = 5, smallest: int = 4) -> list[tuple[int, ...]]:
    """How much each level shrinks each axis: halved while it stays even and large enough.

    A 176 x 176 x 3 volume is halved in its plane alone. A level that would shrink nothing is left out, down to the
    three that a DynUNet needs.
    """
    result = [(1,) * len(patch)]
    size = list(patch)
    for _ in range(levels - 1):
        step = tuple(2 if n % 2 == 0 and n // 2 >= smallest else 1 for n in size)
        if max(step) > 1 or len(result) < 3:
            result.append(step)
            size = [n // s for n, s in zip(size, step, strict=True)]
    return result


def turned(x: Float[Tensor, "B C *space"]) -> Float[Tensor, "B C *turned"]:
    """A volume with its slices first, as a view; a plane as it is.

    Slices are the thin axis of most scans, and convolutions are written for a long last one: with 3 slices of 176 x 176
    in this order, and channels last in memory, they run up to three times as fast.
    """
    return x.permute(0, 1, 4, 2, 3) if x.ndim == 5 else x


def returned(x: Float[Tensor, "B C *turned"]) -> Float[Tensor, "B C *space"]:
    """What `turned` did, undone."""
    return x.permute(0, 1, 3, 4, 2) if x.ndim == 5 else x


class Block(nn.Module):
    """A part of the network that may be called by itself, from the outside, where slices come last."""

    def __init__(self, block: nn.Module):
        super().__init__()
        self.block = block

    def forward(self, x: Float[Tensor, "B C *space"]) -> Float[Tensor, "B D *space"]:
        """What the part makes of x."""
        return returned(self.block(turned(x)))


class Head(Block):
    """The last layer, whose logits are in full precision: in half, a confident mistake would have no gradient."""

    def forward(self, x: Float[Tensor, "B F *space"]) -> Float[Tensor, "B K *space"]:
        """Logits, one channel per region."""
        return super().forward(x).float()


class UNet(nn.Module):
    """theta: MONAI's DynUNet, open at the places where methods reach in.

    encode -> the bottleneck; trunk -> last block -> features -> head -> logits. Inside it is arranged for speed: norms
    with the faster kernel and, where the patch is a volume, slices first and channels last in memory.
    """

    def __init__(
        self,
        inputs: int,
        regions: int,
        channels: int,
        patch: Sequence[int],
        levels: Sequence[Sequence[int]] | None = None,
    ):
        super().__init__()
        self.channels, self.regions, self.patch = channels, regions, tuple(patch)
        shrink = [tuple(step) for step in levels or strides(patch)]
        self.widths = [channels * 2**level for level in range(len(shrink))]
        inside = [step[-1:] + step[:-1] for step in shrink] if len(patch) == 3 else shrink
        network = DynUNet(
            spatial_dims=len(patch),
            in_channels=inputs,
            out_channels=regions,
            kernel_size=[3] * len(inside),
            strides=inside,
            upsample_kernel_size=inside[1:],
            filters=self.widths,
            norm_name=("INSTANCE", {"affine": True}),
        )
        _one_group_a_channel(network)
        nn.init.constant_(network.output_block.conv.conv.bias, log(RARE / (1 - RARE)))
        self.body, self.head = network.skip_layers, Head(network.output_block)
        if len(patch) == 3:  # planes are faster as they are on a processor; on a GPU, training turns them too
            self.to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]

    @property
    def last_block(self) -> Block:
        """The last convolutional block of the decoder."""
        return Block(self.body.upsample.conv_block)

    def encode(self, x: Float[Tensor, "B C *space"]) -> Float[Tensor, "B W *small"]:
        """The features at the bottom of the U."""
        x, layer = turned(x), self.body
        while hasattr(layer, "downsample"):
            x, layer = layer.downsample(x), layer.next_layer
        return returned(layer(x))

    def trunk(self, x: Float[Tensor, "B C *space"]) -> Float[Tensor, "B D *space"]:
        """All but the last block: what came up through the decoder beside what was skipped."""
        skipped = self.body.downsample(turned(x))
        return returned(torch.cat([self.body.upsample.transp_conv(self.body.next_layer(skipped)), skipped], dim=1))

    def features(self, x: Float[Tensor, "B C *space"]) -> Float[Tensor, "B F *space"]:
        """What the head, and phi, read."""
        return returned(self.body(turned(x)))

    def forward(self, x: Float[Tensor, "B C *space"]) -> Float[Tensor, "B K *space"]:
        """Logits, one channel per region."""
        return self.head(self.features(x))


def _one_group_a_channel(network: nn.Module) -> None:
    """Affine instance norms as the group norms that they are: the same function and weights, with a faster kernel."""
    for parent in list(network.modules()):
        for name, norm in parent.named_children():
            if isinstance(norm, nn.InstanceNorm2d | nn.InstanceNorm3d):
                setattr(parent, name, nn.GroupNorm(norm.num_features, norm.num_features, norm.eps))


class ThresholdPosterior(nn.Module):
    """phi (Eq. 5): average pooling, one 3 x 3 block, and a 1 x 1 convolution for each number, as mu and log sigma.

    There is one T per image and class: the last maps are averaged over space. The biases start at the prior, so that
    the first KL is near 0. A prior that needs no number from a network has a phi without weights.
    """

    GRID = 8
    """The size that features are pooled to (thin axes stay as they are): coarse, yet a 3 x 3 kernel has neighbours."""

    def __init__(self, theta: UNet, starts: Sequence[float]):
        super().__init__()
        convolution = nn.Conv2d if len(theta.patch) == 2 else nn.Conv3d
        wide = theta.channels
        # One group over all channels: instance norm would erase how strong the features are, which is what phi reads.
        parts = (convolution(wide, wide, 3, padding=1), nn.GroupNorm(1, wide), nn.ReLU()) if starts else ()
        self.block = nn.Sequential(*parts)
        self.numbers = nn.ModuleList(convolution(wide, theta.regions, 1) for _ in starts)
        for layer, start in zip(self.numbers, starts, strict=True):
            nn.init.normal_(layer.weight, std=0.01)  # type: ignore[arg-type]
            nn.init.constant_(layer.bias, start)  # type: ignore[arg-type]

    def forward(self, features: Float[Tensor, "B F *space"]) -> list[Float[Tensor, "B K"]]:
        """The numbers that make p(T | x), each per image and class."""
        if not self.numbers:
            return []
        maps = self.block(_pooled(features, self.GRID))
        return [layer(maps).flatten(2).mean(2).float() for layer in self.numbers]


def _pooled(features: Float[Tensor, "B F *space"], grid: int) -> Float[Tensor, "B F *grid"]:
    """Averages over a grid; a thin axis stays as it is.

    A volume is pooled plane by plane first, which is the order in which the network leaves it in memory: pooled at
    once, it would be copied forwards and backwards.
    """
    sizes = [min(grid, n) for n in features.shape[2:]]
    if features.ndim == 4:
        return nn.functional.adaptive_avg_pool2d(features, sizes)  # type: ignore[arg-type]
    slices = features.permute(0, 4, 1, 2, 3).flatten(0, 1)
    planes = nn.functional.adaptive_avg_pool2d(slices, sizes[:2])  # type: ignore[arg-type]
    volume = planes.reshape(-1, features.shape[4], *planes.shape[1:]).permute(0, 2, 3, 4, 1)
    return nn.functional.adaptive_avg_pool3d(volume, sizes)  # type: ignore[arg-type]


def averaged(network: nn.Module, decay: float) -> AveragedModel:
    """The network's average over time, theta^(n-1) in a slower form: follows it by 1 - decay at each update.

    A young average looks back over about a ninth of what it has seen, so that it soon forgets the first weights.
    """

    def follow(average: Any, current: Any, seen: Tensor | int) -> None:
        share = max(1 - decay, 9 / (float(seen) + 9))
        for mine, theirs in zip(average, current, strict=True):
            mine.lerp_(theirs.to(mine), share)

    return AveragedModel(network, multi_avg_fn=follow).requires_grad_(False)
