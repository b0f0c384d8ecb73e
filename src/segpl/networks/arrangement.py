"""Compiled networks, for runs that are long enough to repay the compiler."""

from collections.abc import Callable

import torch
from torch import nn

from segpl.em.types import Losses
from segpl.foundation.device import choose_device
from segpl.foundation.progress import console
from segpl.networks.unet import UNet

REPAYS = {"cpu": 2e13, "cuda": 5e15}
"""Floating-point operations of a whole run from which on compiling takes less time than it saves.

A processor's is what was measured (docs/performance.md); a GPU's is a guess from its speed.
"""


class Compiler:
    """Runs a method's losses with compiled networks if `wanted`, and without where that fails.

    The networks are compiled when they are first called in a training step. Validation and all else goes without, under
    the stance that `training` sets: it has images of other shapes, for which the compiler would start again.
    """

    def __init__(self, model: nn.Module, wanted: bool):
        self.stance = "default" if wanted else "force_eager"
        for module in model.modules():
            if wanted and isinstance(module, UNet):
                module.body.compile(dynamic=False)

    def __call__(self, losses: Callable[[], Losses]) -> Losses:
        """The losses of a step."""
        try:
            with torch.compiler.set_stance(self.stance):
                return losses()
        except Exception as error:  # of the compiler, or else it comes again
            if self.stance == "force_eager":
                raise
            console.print(
                f"The networks could not be compiled ({(str(error) or repr(error)).splitlines()[0]}): going on without."
            )
            self.stance = "force_eager"
            return self(losses)


def repays(operations: float, axes: int) -> bool:
    """Whether a run of so many operations on planes or volumes is worth compiling for, on the device at hand.

    On a processor planes gain nothing: their convolutions are nearly all there is, and the compiler leaves those alone.
    """
    device = choose_device().type
    return operations > REPAYS[device] and (device == "cuda" or axes == 3)
