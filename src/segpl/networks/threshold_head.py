"""phi: what reads a threshold's posterior off theta's features."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from segpl.networks.unet import UNet


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
        parts = (
            (convolution(wide, wide, 3, padding=1), nn.GroupNorm(1, wide), nn.ReLU())
            if starts
            else ()
        )
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
