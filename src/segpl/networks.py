"""The two networks of the paper: theta, a U-Net, and phi, which reads a threshold's posterior off theta's features."""

from collections.abc import Sequence
from math import log

import torch
from jaxtyping import Float
from monai.networks.nets import DynUNet
from torch import Tensor, nn
from torch.distributions import Normal


def strides(patch: Sequence[int], levels: int = 5, smallest: int = 4) -> list[tuple[int, ...]]:
    """How much each level shrinks each axis: halved while it stays even and large enough.

    A 176 x 176 x 3 volume is halved in its plane alone. A level that would shrink nothing is left out.
    """
    result = [(1,) * len(patch)]
    size = list(patch)
    for _ in range(levels - 1):
        step = tuple(2 if n % 2 == 0 and n // 2 >= smallest else 1 for n in size)
        if max(step) > 1:
            result.append(step)
            size = [n // s for n, s in zip(size, step, strict=True)]
    return result


class UNet(nn.Module):
    """theta: MONAI's DynUNet, cut before its last layer so that phi can read the features."""

    def __init__(self, inputs: int, regions: int, channels: int, patch: Sequence[int]):
        super().__init__()
        self.channels, self.regions, self.dimensions = channels, regions, len(patch)
        shrink = strides(patch)
        network = DynUNet(
            spatial_dims=len(patch),
            in_channels=inputs,
            out_channels=regions,
            kernel_size=[3] * len(shrink),
            strides=shrink,
            upsample_kernel_size=shrink[1:],
            filters=[channels * 2**level for level in range(len(shrink))],
            norm_name=("INSTANCE", {"affine": True}),
        )
        self.features, self.head = network.skip_layers, network.output_block

    def forward(self, x: Float[Tensor, "B C *space"]) -> Float[Tensor, "B K *space"]:
        """Logits, one channel per region."""
        return self.head(self.features(x))


class ThresholdPosterior(nn.Module):
    """phi (Eq. 5): average pooling, one 3 x 3 block, and two 1 x 1 convolutions for mu and log sigma.

    There is one T per image and class: the last maps are averaged over space. mu passes a sigmoid, because a threshold
    on a probability lies in (0, 1). The biases start at the prior, so that the first KL is near 0.
    """

    GRID = 8
    """The size that features are pooled to (thin axes stay as they are): coarse, yet a 3 x 3 kernel has neighbours."""

    def __init__(self, channels: int, regions: int, dimensions: int, mean: float, deviation: float):
        super().__init__()
        convolution = nn.Conv2d if dimensions == 2 else nn.Conv3d
        # One group over all channels: instance norm would erase how strong the features are, which is what phi reads.
        self.block = nn.Sequential(convolution(channels, channels, 3, padding=1), nn.GroupNorm(1, channels), nn.ReLU())
        self.mu = convolution(channels, regions, 1)
        self.log_sigma = convolution(channels, regions, 1)
        for layer, start in ((self.mu, log(mean / (1 - mean))), (self.log_sigma, log(deviation))):
            nn.init.normal_(layer.weight, std=0.01)
            nn.init.constant_(layer.bias, start)  # type: ignore[arg-type]

    def forward(self, features: Float[Tensor, "B F *space"]) -> Normal:
        """p(T | x) (Eq. 6), one Normal per image and class."""
        pool = nn.functional.adaptive_avg_pool2d if features.ndim == 4 else nn.functional.adaptive_avg_pool3d
        maps = self.block(pool(features, tuple(min(self.GRID, n) for n in features.shape[2:])))  # type: ignore[arg-type]
        mu, log_sigma = (layer(maps).flatten(2).mean(2) for layer in (self.mu, self.log_sigma))
        return Normal(mu.sigmoid(), log_sigma.exp())


def quantile(posterior: Normal, u: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
    """T at level u of the Normal cut to (0, 1), which is where the paper lets T live.

    With u uniform this is a draw, and its gradient reaches mu and sigma; with u = 1/2 it is the median.
    """
    low, high = posterior.cdf(torch.zeros_like(u)), posterior.cdf(torch.ones_like(u))
    return posterior.icdf(low + u * (high - low)).clamp(1e-4, 1 - 1e-4)
