"""One training step of every method at the paper's two configurations, beside the network as MONAI gives it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from segpl.benchmark.machine import PRODUCT, interleaved, peak_memory, product
from segpl.benchmark.reference import as_monai_gives_it
from segpl.em.types import Batch, Losses
from segpl.foundation.device import choose_device
from segpl.foundation.progress import track
from segpl.methods import BASELINE, METHODS
from segpl.methods.base import Method
from segpl.networks.arrangement import Compiler
from segpl.networks.unet import UNet

REFERENCE = "MONAI's network"
PLAIN = BASELINE


@dataclass(frozen=True)
class Configuration:
    """What a step of the paper looks like."""

    name: str
    inputs: int
    regions: int
    channels: int
    patch: tuple[int, ...]
    labelled: int
    unlabelled: int

    def network(self) -> UNet:
        """A fresh theta."""
        return UNet(self.inputs, self.regions, self.channels, self.patch)

    def batch(self, device: torch.device, all_labelled: bool = False) -> Batch:
        """Images of noise with blobs for labels; a method that knows labels alone gets as many images in all."""
        count = self.labelled + self.unlabelled
        x = torch.randn(count, self.inputs, *self.patch, device=device)
        y = (torch.rand(count, self.regions, *self.patch, device=device) > 0.8).float()
        seeds, labelled = (
            torch.arange(count, device=device),
            count if all_labelled else self.labelled,
        )
        return Batch(
            x[:labelled],
            y[:labelled],
            x[:labelled],
            y[:labelled],
            x[labelled:],
            seeds[:labelled],
            seeds[labelled:],
        )


BRATS = Configuration("BRATS, 2D", 4, 3, 16, (176, 176), 2, 10)
CARVE = Configuration("CARVE, 3D", 1, 1, 8, (176, 176, 3), 2, 8)


def measure_steps(
    configuration: Configuration, methods: Sequence[str], repeats: int, compiled: bool
) -> Iterator[dict[str, Any]]:
    """A row for the reference and for each method: time, operations, share of the mark, ratio to supervised, memory."""
    device = choose_device()
    torch._dynamo.config.recompile_limit = 1000  # every method has networks of its own
    tasks: dict[str, Callable[[], Any]] = {
        "product": product(device),
        REFERENCE: _reference(configuration, device),
    }
    tasks |= {name: _learning(configuration, METHODS[name](), device, compiled) for name in methods}
    title = f"Warming up {configuration.name}"
    with torch.compiler.set_stance("default"):
        memory = {name: peak_memory(task) for name, task in track(list(tasks.items()), title)}
        timings = interleaved(tasks, repeats)
    mark = PRODUCT / timings["product"].median
    for name in list(tasks)[1:]:
        timing, operations = timings[name], _operations(configuration, name, device)
        pairs = zip(timing.seconds, timings[PLAIN].seconds, strict=True)  # of the same moment
        yield {
            "configuration": configuration.name,
            "method": name,
            "compiled": compiled and name != REFERENCE,
            "seconds": timing.median,
            "spread": timing.spread,
            "flops": operations,
            "flops_per_second": operations / timing.median,
            "share_of_product": operations / timing.median / mark,
            "speed_up": timings[REFERENCE].median / timing.median,
            "ratio_to_supervised": median(mine / plain for mine, plain in pairs),
            "peak_memory_bytes": memory[name],
        }


def _learning(
    configuration: Configuration, method: Method, device: torch.device, compiled: bool
) -> Callable[[], Losses]:
    torch.manual_seed(0)
    model = method.build(configuration.network).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    batch = configuration.batch(device, all_labelled=not method.uses_unlabelled())
    compiler = Compiler(model, compiled)

    def step() -> Losses:
        found = compiler(lambda: method.losses(model, batch, progress=0.9))
        _update(found.total, optimiser)
        method.after_step(model)
        return found

    return step


def _reference(configuration: Configuration, device: torch.device) -> Callable[[], None]:
    torch.manual_seed(0)
    network = as_monai_gives_it(configuration.network(), configuration.inputs).to(device)
    optimiser, method = torch.optim.Adam(network.parameters(), lr=1e-4), METHODS[PLAIN]()
    batch = configuration.batch(device, all_labelled=True)
    return lambda: _update(method.fit(network(batch.x_l).sigmoid(), batch.y_l), optimiser)


def _update(loss: torch.Tensor, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def _operations(configuration: Configuration, name: str, device: torch.device) -> int:
    """Of one step, forwards and backwards, counted while one more of them is done."""
    method: Method = METHODS[PLAIN if name == REFERENCE else name]()
    model: nn.Module = method.build(configuration.network).to(device)
    batch = configuration.batch(device, all_labelled=not method.uses_unlabelled())
    with FlopCounterMode(display=False) as counter, torch.compiler.set_stance("force_eager"):
        method.losses(model, batch, progress=0.9).total.backward()
    return counter.get_total_flops()
