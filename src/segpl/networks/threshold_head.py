"""phi: the network that reads the threshold's posterior from theta's features."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, adaptive_avg_pool3d

from segpl.em.tensors import Features, PerClass
from segpl.networks.unet import UNet

GRID = 8
"""Features are averaged to at most this size along each axis: coarse, but large enough for a
3 x 3 kernel."""


class ThresholdHead(nn.Module):
    """phi (Eq. 5): average pooling, one 3 x 3 block, and one 1 x 1 convolution for each output.

    For a Normal prior the outputs are the logit of mu and log sigma. There is one T per image and
    class, so the output maps are averaged over space. The biases start at `initial_outputs`, so
    that the first posterior is close to the prior. Without outputs, phi has no weights.
    """

    def __init__(self, theta: UNet, initial_outputs: Sequence[float]):
        super().__init__()
        is_plane = len(theta.patch) == 2
        convolution = nn.Conv2d if is_plane else nn.Conv3d
        channels = theta.channels
        self.block = nn.Sequential()
        if initial_outputs:
            self.block.append(convolution(channels, channels, 3, padding=1))
            # One group over all channels: instance norm would erase how strong the features are.
            self.block.append(nn.GroupNorm(1, channels))
            self.block.append(nn.ReLU())
        self.numbers = nn.ModuleList()
        for _ in initial_outputs:
            self.numbers.append(convolution(channels, theta.regions, 1))
        for layer, start in zip(self.numbers, initial_outputs, strict=True):
            nn.init.normal_(layer.weight, std=0.01)  # type: ignore[arg-type]
            nn.init.constant_(layer.bias, start)  # type: ignore[arg-type]

    def forward(self, features: Features) -> list[PerClass]:
        """The outputs that determine p(T | x), each with one number per image and class."""
        if not self.numbers:
            return []
        maps = self.block(_average_on_grid(features))
        outputs = []
        for layer in self.numbers:
            over_space = layer(maps).flatten(2).mean(2)
            outputs.append(over_space.float())
        return outputs


def _average_on_grid(features: Features) -> Float[Tensor, "B F *grid"]:
    """The features averaged to `GRID` along each axis; shorter axes stay as they are.

    A volume is first averaged slice by slice, which is the order of its voxels in memory. Averaged
    in one step, it would be copied, and its gradient as well.
    """
    sizes = [min(GRID, size) for size in features.shape[2:]]
    if features.ndim == 4:
        return adaptive_avg_pool2d(features, sizes)  # type: ignore[arg-type]
    slices = features.permute(0, 4, 1, 2, 3).flatten(0, 1)
    small_slices = adaptive_avg_pool2d(slices, sizes[:2])  # type: ignore[arg-type]
    depth = features.shape[4]
    volumes = small_slices.reshape(-1, depth, *small_slices.shape[1:])
    return adaptive_avg_pool3d(volumes.permute(0, 2, 3, 4, 1), sizes)  # type: ignore[arg-type]
