"""Compilation of the networks, for runs that are long enough to repay it."""

from collections.abc import Callable

import torch
from torch import nn

from segpl.em.types import Losses
from segpl.foundation.device import choose_device
from segpl.foundation.progress import console
from segpl.networks.unet import UNet

WORTHWHILE_OPERATIONS = {"cpu": 2e13, "cuda": 5e15}
"""Floating-point operations of a whole run above which compiling saves more time than it takes.

The value for the CPU is measured (docs/performance.md), that for a GPU is estimated from its speed.
"""


class Compiler:
    """Computes a method's losses with compiled networks if `wanted`, without if that fails.

    A network is compiled when it is first called in a training step. Validation and everything
    else run uncompiled, under the stance that `training` sets: their images have other shapes, for
    which the compiler would start again.
    """

    def __init__(self, model: nn.Module, wanted: bool):
        self.stance = "force_eager"
        if wanted:
            self.stance = "default"
            for module in model.modules():
                if isinstance(module, UNet):
                    module.body.compile(dynamic=False)

    def __call__(self, losses: Callable[[], Losses]) -> Losses:
        """The losses of a step. After a first failure, this and all later steps run uncompiled."""
        try:
            with torch.compiler.set_stance(self.stance):
                return losses()
        except Exception as error:
            # An error that does not come from the compiler appears again without it.
            if self.stance == "force_eager":
                raise
            console.print(
                f"The networks could not be compiled ({_first_line(error)}): "
                "continuing without compilation."
            )
            self.stance = "force_eager"
            return self(losses)


def _first_line(error: Exception) -> str:
    text = str(error) or repr(error)
    return text.splitlines()[0]


def worth_compiling(operations: float, axes: int) -> bool:
    """Whether compiling pays for a run of this many operations on planes or volumes (2 or 3 axes).

    On a CPU, planes gain nothing: nearly all their time goes into convolutions, which the compiler
    leaves as they are.
    """
    device = choose_device().type
    is_long = operations > WORTHWHILE_OPERATIONS[device]
    return is_long and (device == "cuda" or axes == 3)
