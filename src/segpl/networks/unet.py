"""The two networks of the paper: theta, a U-Net, and phi, which reads a threshold's posterior off theta's features."""

from collections.abc import Sequence
from math import log

import torch
from jaxtyping import Float
from monai.networks.nets import DynUNet
from torch import Tensor, nn

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
        if (
            len(patch) == 3
        ):  # planes are faster as they are on a processor; on a GPU, training turns them too
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
        return returned(
            torch.cat(
                [self.body.upsample.transp_conv(self.body.next_layer(skipped)), skipped], dim=1
            )
        )

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
