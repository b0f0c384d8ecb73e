"""What a network makes of a scan, in a few hundred numbers: what it is compared with other scans by."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from segpl.networks.unet import UNet


@dataclass
class Heard:
    """Sums over the windows of a scan, for each network that was asked."""

    sums: dict[int, Float[Tensor, " W"]] = field(default_factory=dict)
    windows: dict[int, int] = field(default_factory=dict)

    def add(self, network: int, features: Float[Tensor, "B W *small"]) -> None:
        """The features at the bottom of the U, for some windows."""
        total = features.flatten(2).mean(2).sum(0).cpu()
        self.sums[network] = self.sums.get(network, 0) + total
        self.windows[network] = self.windows.get(network, 0) + len(features)

    def features(self) -> Float[np.ndarray, " D"]:
        """Mean over the windows, network after network."""
        return np.concatenate(
            [(self.sums[each] / self.windows[each]).numpy() for each in sorted(self.sums)]
        )


@contextmanager
def listening(model: nn.Module) -> Iterator[Heard]:
    """Hear what passes the bottom of every U-Net that predicts meanwhile, which costs no pass of its own.

    A student whose teacher predicts is silent; the members of an ensemble are all heard.
    """
    heard = Heard()
    networks = [module for module in model.modules() if isinstance(module, UNet)]

    def hear(network: int) -> Any:
        return lambda _module, _inputs, features: heard.add(network, features)

    hooks = [
        _bottom(each).register_forward_hook(hear(place)) for place, each in enumerate(networks)
    ]
    try:
        yield heard
    finally:
        for hook in hooks:
            hook.remove()


def _bottom(network: UNet) -> nn.Module:
    layer = network.body
    while hasattr(layer, "downsample"):
        layer = layer.next_layer
    return layer
