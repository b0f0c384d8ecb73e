"""One training step of every method at the paper's two configurations, and of MONAI's network."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from segpl.benchmark.machine import (
    PRODUCT_OPERATIONS,
    Timing,
    interleaved,
    matrix_product,
    peak_memory,
)
from segpl.benchmark.reference import monai_reference
from segpl.em.types import Batch, Losses
from segpl.foundation.device import choose_device
from segpl.foundation.progress import track
from segpl.methods import BASELINE, METHODS
from segpl.methods.base import Method
from segpl.networks.compilation import Compiler
from segpl.networks.unet import UNet

REFERENCE = "MONAI's network"
PLAIN = BASELINE
"""The method whose step is one forward and one backward pass of one network."""
PRODUCT = "product"
LATE_IN_THE_RUN = 0.9
"""The share of the run after which a step is timed: every method uses its unlabelled images."""


@dataclass(frozen=True)
class Configuration:
    """The sizes of a training step."""

    name: str
    inputs: int
    """Channels of an image."""
    regions: int
    channels: int
    """First channels of the network."""
    patch: tuple[int, ...]
    labelled: int
    """Labelled images of a step."""
    unlabelled: int

    def network(self) -> UNet:
        """A new theta."""
        return UNet(self.inputs, self.regions, self.channels, self.patch)

    def batch_for(self, method: Method, device: torch.device) -> Batch:
        """The batches that a step of the method needs."""
        batches = []
        for _ in range(method.batches_per_step):
            batches.append(self.batch(device, all_labelled=not method.uses_unlabelled()))
        return Batch.join(batches)

    def batch(self, device: torch.device, all_labelled: bool = False) -> Batch:
        """Images and labels of noise.

        With `all_labelled`, the unlabelled images are labelled too, so that methods without
        unlabelled images get as many images as the others.
        """
        count = self.labelled + self.unlabelled
        x = torch.randn(count, self.inputs, *self.patch, device=device)
        noise = torch.rand(count, self.regions, *self.patch, device=device)
        y = (noise > 0.8).float()
        seeds = torch.arange(count, device=device)
        labelled = count if all_labelled else self.labelled
        return Batch(
            x_l=x[:labelled],
            y_l=y[:labelled],
            x_p=x[:labelled],
            y_p=y[:labelled],
            x_u=x[labelled:],
            seeds_l=seeds[:labelled],
            seeds_u=seeds[labelled:],
        )


BRATS = Configuration(
    name="BRATS, 2D",
    inputs=4,
    regions=3,
    channels=16,
    patch=(176, 176),
    labelled=2,
    unlabelled=10,
)
CARVE = Configuration(
    name="CARVE, 3D",
    inputs=1,
    regions=1,
    channels=8,
    patch=(176, 176, 3),
    labelled=2,
    unlabelled=8,
)


def measure_steps(
    configuration: Configuration,
    methods: Sequence[str],
    repeats: int,
    compiled: bool,
) -> Iterator[dict[str, Any]]:
    """A row for MONAI's network and for each method, with its time, operations and memory.

    `methods` must include the plain one, which the others are compared with.
    """
    device = choose_device()
    torch._dynamo.config.recompile_limit = 1000  # every method has networks of its own
    tasks: dict[str, Callable[[], Any]] = {
        PRODUCT: matrix_product(device),
        REFERENCE: _reference_step(configuration, device),
    }
    for name in methods:
        tasks[name] = _training_step(configuration, METHODS[name](), device, compiled)
    memory = {}
    with torch.compiler.set_stance("default"):
        for name, task in track(list(tasks.items()), f"Warming up {configuration.name}"):
            memory[name] = peak_memory(task)
        timings = interleaved(tasks, repeats)
    for name in (REFERENCE, *methods):
        operations = _operations(configuration, name, device)
        yield {
            "configuration": configuration.name,
            "method": name,
            "compiled": compiled and name != REFERENCE,
            **_speed(timings, name, operations),
            "peak_memory_bytes": memory[name],
        }


def _speed(
    timings: dict[str, Timing],
    name: str,
    operations: int,
) -> dict[str, float]:
    """The time of a step, and its ratios to the matrix product and to other steps."""
    timing = timings[name]
    product_rate = PRODUCT_OPERATIONS / timings[PRODUCT].median
    rate = operations / timing.median
    return {
        "seconds": timing.median,
        "spread": timing.spread,
        "flops": operations,
        "flops_per_second": rate,
        "share_of_product": rate / product_rate,
        "speed_up": timings[REFERENCE].median / timing.median,
        "ratio_to_supervised": _median_ratio(timing, timings[PLAIN]),
    }


def _median_ratio(timing: Timing, plain: Timing) -> float:
    """The median ratio of measurements that were taken at nearly the same moment."""
    pairs = zip(timing.seconds, plain.seconds, strict=True)
    return median(seconds / plain_seconds for seconds, plain_seconds in pairs)


def _training_step(
    configuration: Configuration,
    method: Method,
    device: torch.device,
    compiled: bool,
) -> Callable[[], Losses]:
    """A training step of a method on one batch, as a task."""
    torch.manual_seed(0)
    model = method.build(configuration.network).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    batch = configuration.batch_for(method, device)
    compiler = Compiler(model, compiled)

    def step() -> Losses:
        losses = compiler(lambda: method.losses(model, batch, progress=LATE_IN_THE_RUN))
        _update(losses.total, optimiser)
        method.after_step(model)
        return losses

    return step


def _reference_step(configuration: Configuration, device: torch.device) -> Callable[[], None]:
    """A supervised training step of MONAI's network, as a task."""
    torch.manual_seed(0)
    network = monai_reference(configuration.network(), configuration.inputs).to(device)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-4)
    method = METHODS[PLAIN]()
    batch = configuration.batch(device, all_labelled=True)

    def step() -> None:
        p_l = network(batch.x_l).sigmoid()
        _update(method.segmentation_loss(p_l, batch.y_l), optimiser)

    return step


def _update(loss: torch.Tensor, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def _operations(
    configuration: Configuration,
    name: str,
    device: torch.device,
) -> int:
    """Floating-point operations of one step, forwards and backwards, counted by running it."""
    method: Method = METHODS[PLAIN if name == REFERENCE else name]()
    model = method.build(configuration.network).to(device)
    batch = configuration.batch_for(method, device)
    with FlopCounterMode(display=False) as counter, torch.compiler.set_stance("force_eager"):
        method.losses(model, batch, progress=LATE_IN_THE_RUN).total.backward()
    return counter.get_total_flops()
