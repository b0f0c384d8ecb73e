"""A run's prediction as one module: windows in, probabilities out, with all that the method has learnt inside."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from segpl.data.cases import Task
from segpl.data.phantoms import Phantom
from segpl.data.phantoms.tumour import draw
from segpl.data.preparation import network_input
from segpl.exporting.substitutes import PORTABLE, Substituting, by_torch_alone
from segpl.inference.model import load_model
from segpl.methods.base import Method
from segpl.settings.run import Run, read_run, read_task

TRACED, CHECKED = (2,), (1, 3)
"""Batch sizes that an export is made with, and checked with: other ones, so that none is frozen into it."""
TOLERANCE = 0.02
"""How far a probability may be from the run's own.

Norms amplify rounding: on phantoms, a network trained on hippocampi differed by 0.005 from itself in
double precision, and by as much from its ONNX program.
"""
MEAN_TOLERANCE = 2e-4
"""How far probabilities may be apart on average: rounding moves few of them, a mistake moves many."""


class Trained(NamedTuple):
    """What a run directory holds."""

    run: Run
    task: Task
    model: nn.Module


def read_trained(directory: Path) -> Trained:
    """The run, what it takes and gives, and its best weights."""
    run = read_run(directory)
    model = load_model(directory, run).requires_grad_(False)
    return Trained(run, read_task(directory), model)


class Prediction(nn.Module):
    """The method's own prediction, such as that of an ensemble or under a learnt threshold: its mask is p > 1/2."""

    def __init__(self, method: Method, model: nn.Module):
        super().__init__()
        self.method, self.model = method, model

    def forward(self, image: Float[Tensor, "B C *space"]) -> Float[Tensor, "B K *space"]:
        """Probabilities of each region."""
        return self.method.predict(self.model, image)[0]


def prediction(trained: Trained) -> Prediction:
    """The module of a trained run."""
    return Prediction(trained.run.method, trained.model).eval()


def script(trained: Trained) -> torch.jit.ScriptModule:
    """The same as a TorchScript program, which needs neither segpl nor Python."""
    with tracing(PORTABLE):
        program = torch.jit.trace(
            prediction(trained), (next(windows(trained, TRACED)),), check_trace=False
        )
    check(trained, program, "TorchScript")
    return program


@contextmanager
def tracing(substitutes: dict[Callable, Callable]) -> Iterator[None]:
    """While it is entered, a trace sees what can be exported, and what it warns of is left to `check`."""
    with by_torch_alone(), Substituting(substitutes), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check(trained: Trained, theirs: Callable[[Tensor], Tensor], kind: str) -> float:
    """The largest difference between an exported program's probabilities and the run's own.

    Too large a difference, at one voxel or on average over a batch of windows, is an error.
    """
    ours = prediction(trained)
    largest = 0.0
    for image in windows(trained, CHECKED):
        apart = (theirs(image) - ours(image)).abs()
        agrees = apart.max() <= TOLERANCE and apart.mean() <= MEAN_TOLERANCE
        if not agrees:  # NaN is no agreement either
            raise RuntimeError(
                f"the {kind} program differs from the run by {apart.max():.2g}, so it was not written"
            )
        largest = max(largest, apart.max().item())
    return largest


def windows(trained: Trained, sizes: Sequence[int]) -> Iterator[Float[Tensor, "B C *space"]]:
    """Batches of phantom scans to try a program on, whole and from close by.

    Never a window without content: there group norm divides by nearly nothing, and amplifies rounding
    until torch disagrees with itself.
    """
    for size in sizes:
        for zoom in (1, 2):
            scans = [_phantom_window(trained, subject, zoom) for subject in range(size)]
            yield torch.stack(scans)


@cache
def _phantom(subject: int) -> Phantom:
    """Drawn once: an export is checked on the same few phantoms several times."""
    return draw(seed=0, subject=subject)


def _phantom_window(trained: Trained, subject: int, zoom: int) -> Float[Tensor, "C *space"]:
    """The middle of a phantom, `zoom` times as large as the patch, with as many channels as wanted."""
    phantom = _phantom(subject)
    count = len(trained.task.channels)
    channels = [phantom.image[index % len(phantom.image)] for index in range(count)]
    patch = (*trained.run.patch, 8)[:3]
    shape = (zoom * patch[0], zoom * patch[1], zoom * patch[2])
    x = network_input(channels, [None] * count, shape)
    for axis, size in enumerate(patch, start=1):
        x = x.narrow(axis, (x.shape[axis] - size) // 2, size)
    if len(trained.run.patch) == 2:
        x = x[..., patch[2] // 2]
    return x.contiguous()
