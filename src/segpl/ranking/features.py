"""A scan as the mean bottleneck features of the networks that predict it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from segpl.networks.unet import UNet

Features = Float[np.ndarray, " D"]
"""The mean bottleneck features of a scan."""


class BottleneckFeatures:
    """Sums over the windows of a scan, by the index of the network."""

    def __init__(self) -> None:
        self.sums: dict[int, Tensor] = {}
        self.windows: dict[int, int] = {}

    def add(self, network: int, features: Float[Tensor, "B W *small"]) -> None:
        """Add the features of a batch of windows."""
        mean_of_window = features.flatten(2).mean(2)
        total = mean_of_window.sum(0).cpu()
        windows = len(features)
        self.sums[network] = self.sums.get(network, 0) + total
        self.windows[network] = self.windows.get(network, 0) + windows

    def mean(self) -> Features:
        """The mean over windows, with the networks one after the other."""
        means = []
        for network in sorted(self.sums):
            mean = self.sums[network] / self.windows[network]
            means.append(mean.numpy())
        return np.concatenate(means)


@contextmanager
def recorded_features(model: nn.Module) -> Iterator[BottleneckFeatures]:
    """Record the bottleneck features of every U-Net that predicts meanwhile.

    This costs no forward pass of its own. All members of an ensemble are recorded; a student is not
    while its teacher predicts.
    """
    features = BottleneckFeatures()
    networks = [module for module in model.modules() if isinstance(module, UNet)]
    hooks = []
    for index, network in enumerate(networks):
        hook = _bottleneck(network).register_forward_hook(_recorder(features, index))
        hooks.append(hook)
    try:
        yield features
    finally:
        for hook in hooks:
            hook.remove()


def _recorder(features: BottleneckFeatures, network: int) -> Callable[..., None]:
    """A forward hook that adds the output of a layer to the features of a network."""

    def record(_layer: nn.Module, _inputs: Any, output: Tensor) -> None:
        features.add(network, output)

    return record


def _bottleneck(network: UNet) -> nn.Module:
    layer = network.body
    while hasattr(layer, "downsample"):
        layer = layer.next_layer
    return layer
