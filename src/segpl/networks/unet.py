"""theta: the U-Net that segments."""

from collections.abc import Sequence
from math import log

import torch
from jaxtyping import Float
from monai.networks.nets import DynUNet
from torch import Tensor, nn

from segpl.em.tensors import Features, Images, Logits

INITIAL_FOREGROUND = 0.1
"""The foreground probability that a new network predicts everywhere.

With biases of 0 it would be one half, which the network must unlearn first: for one of two seeds
that took half of the run.
"""
FEWEST_LEVELS = 3
"""A DynUNet needs at least this many."""

Strides = tuple[int, ...]
SlicesFirst = Float[Tensor, "B C *slices_first"]
"""A volume as (B, C, Z, X, Y); a plane as (B, C, X, Y)."""


def strides(patch: Sequence[int], levels: int = 5, smallest: int = 4) -> list[Strides]:
    """The factors by which each level of the U-Net shrinks each axis.

    An axis is halved while it is even and its half is not below `smallest`; a volume of
    176 x 176 x 3 is therefore halved in its plane only. A level that shrinks nothing is left out,
    unless there would be too few.
    """
    all_strides: list[Strides] = [(1,) * len(patch)]
    size = list(patch)
    for _ in range(levels - 1):
        stride = tuple(_stride(length, smallest) for length in size)
        if max(stride) > 1 or len(all_strides) < FEWEST_LEVELS:
            all_strides.append(stride)
            size = [length // factor for length, factor in zip(size, stride, strict=True)]
    return all_strides


def _stride(length: int, smallest: int) -> int:
    """2 if the axis can be halved, else 1."""
    can_be_halved = length % 2 == 0 and length // 2 >= smallest
    return 2 if can_be_halved else 1


def slices_first(x: Images) -> SlicesFirst:
    """A view of a volume with its slices as the first axis of space; a plane stays as it is.

    Slices are the short axis of most scans, while convolutions are fast along a long last axis.
    For 3 slices of 176 x 176, with channels last in memory, this is up to three times as fast.
    """
    if x.ndim == 4:
        return x
    return x.permute(0, 1, 4, 2, 3)


def slices_last(x: SlicesFirst) -> Images:
    """The inverse of `slices_first`."""
    if x.ndim == 4:
        return x
    return x.permute(0, 1, 3, 4, 2)


class Block(nn.Module):
    """A part of the network for use on its own: slices are last outside and first inside."""

    def __init__(self, block: nn.Module):
        super().__init__()
        self.block = block

    def forward(self, x: Images) -> Float[Tensor, "B D *space"]:
        """The part's output."""
        return slices_last(self.block(slices_first(x)))


class Head(Block):
    """The last layer. Its logits are in full precision.

    In half precision the sigmoid of a large logit is exactly 1, and a confident mistake would have
    no gradient.
    """

    def forward(self, x: Features) -> Logits:
        """Logits, one channel per region."""
        return super().forward(x).float()


class UNet(nn.Module):
    """theta: MONAI's DynUNet, with access to the parts that methods need.

    `encode` returns the bottleneck. The full path is trunk, last block (features), head (logits).
    For speed, instance norms run as group norms, and volumes have their slices first and their
    channels last in memory.
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
        self.channels = channels
        self.regions = regions
        self.patch = tuple(patch)
        all_strides = [tuple(stride) for stride in levels or strides(patch)]
        self.widths = [channels * 2**level for level in range(len(all_strides))]
        network = _dynunet(inputs, regions, self.widths, all_strides)
        self.body = network.skip_layers
        self.head = Head(network.output_block)
        # On a CPU planes are faster with channels first; on a GPU, training changes planes too.
        if len(patch) == 3:
            self.to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]

    @property
    def last_block(self) -> Block:
        """The last convolutional block of the decoder."""
        return Block(self.body.upsample.conv_block)

    def encode(self, x: Images) -> Float[Tensor, "B W *small"]:
        """The features at the bottleneck."""
        x = slices_first(x)
        level = self.body
        while hasattr(level, "downsample"):
            x = level.downsample(x)
            level = level.next_layer
        return slices_last(level(x))

    def trunk(self, x: Images) -> Float[Tensor, "B D *space"]:
        """The input of the last block: upsampled features beside those of the skip connection."""
        skipped = self.body.downsample(slices_first(x))
        from_below = self.body.next_layer(skipped)
        upsampled = self.body.upsample.transp_conv(from_below)
        return slices_last(torch.cat([upsampled, skipped], dim=1))

    def features(self, x: Images) -> Features:
        """The input of the head, and of phi."""
        return slices_last(self.body(slices_first(x)))

    def forward(self, x: Images) -> Logits:
        """Logits, one channel per region."""
        return self.head(self.features(x))


def _dynunet(
    inputs: int, regions: int, widths: Sequence[int], all_strides: Sequence[Strides]
) -> DynUNet:
    """MONAI's network for images with slices first, with our norms and initial bias."""
    axes = len(all_strides[0])
    if axes == 3:
        all_strides = [(z, x, y) for x, y, z in all_strides]
    network = DynUNet(
        spatial_dims=axes,
        in_channels=inputs,
        out_channels=regions,
        kernel_size=[3] * len(all_strides),
        strides=all_strides,
        upsample_kernel_size=all_strides[1:],
        filters=widths,
        norm_name=("INSTANCE", {"affine": True}),
    )
    _replace_instance_norms(network)
    bias = network.output_block.conv.conv.bias
    nn.init.constant_(bias, log(INITIAL_FOREGROUND / (1 - INITIAL_FOREGROUND)))
    return network


def _replace_instance_norms(network: nn.Module) -> None:
    """Replace affine instance norms by group norms with one channel per group.

    They are the same function with the same weights, and have a faster kernel.
    """
    for parent in list(network.modules()):
        for name, norm in parent.named_children():
            if isinstance(norm, nn.InstanceNorm2d | nn.InstanceNorm3d):
                channels = norm.num_features
                setattr(parent, name, nn.GroupNorm(channels, channels, norm.eps))
