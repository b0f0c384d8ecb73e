"""Checks that an exported program predicts what the run itself predicts."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from segpl.data.phantoms import Phantom
from segpl.data.phantoms.tumour import draw
from segpl.data.preparation import network_input
from segpl.exporting.trained import Trained, prediction_module

TRACING_BATCH = 2
"""Number of windows in the batch that a program is traced with."""
VERIFICATION_BATCHES = (1, 3)
"""Batch sizes of the check. They differ from the traced one, so a size frozen into it is found."""
TOLERANCE = 0.02
"""Largest difference allowed between a probability and the run's own.

Norms amplify rounding: on phantoms, a network trained on hippocampi differed by 0.005 from itself
in double precision, and by as much from its ONNX program.
"""
MEAN_TOLERANCE = 2e-4
"""Largest mean difference allowed: rounding moves a few probabilities, a mistake moves many."""
PHANTOM_SLICES = 8
"""Slices of the phantom block from which a 2D window is taken."""


def verify(
    trained: Trained,
    exported: Callable[[Tensor], Tensor],
    format: str,
) -> float:
    """Compare an exported program with the run, and return the largest difference.

    Raises an error if the probabilities differ by more than TOLERANCE at one voxel, or by more than
    MEAN_TOLERANCE on average over a batch of windows.
    """
    original = prediction_module(trained)
    largest = 0.0
    for image in phantom_windows(trained, VERIFICATION_BATCHES):
        difference = (exported(image) - original(image)).abs()
        worst = difference.max()
        agrees = worst <= TOLERANCE and difference.mean() <= MEAN_TOLERANCE
        if not agrees:  # also true for NaN
            raise RuntimeError(
                f"the {format} program differs from the run by {worst:.2g}, so it was not written"
            )
        largest = max(largest, worst.item())
    return largest


def tracing_example(trained: Trained) -> Float[Tensor, "B C *space"]:
    """The batch of windows that a program is traced with."""
    return next(phantom_windows(trained, [TRACING_BATCH]))


def phantom_windows(
    trained: Trained,
    batch_sizes: Sequence[int],
) -> Iterator[Float[Tensor, "B C *space"]]:
    """Two batches of phantom windows for each size: whole phantoms, and enlarged by two.

    No window is empty: there, group norm would divide by nearly zero and amplify rounding until
    torch disagrees with itself.
    """
    for batch_size in batch_sizes:
        for zoom in (1, 2):
            windows = [_phantom_window(trained, subject, zoom) for subject in range(batch_size)]
            yield torch.stack(windows)


@cache
def _phantom(subject: int) -> Phantom:
    """Cached, because one export is checked on the same few phantoms several times."""
    return draw(seed=0, subject=subject)


def _phantom_window(
    trained: Trained,
    subject: int,
    zoom: int,
) -> Float[Tensor, "C *space"]:
    """The centre of a phantom that was resampled to `zoom` times the size of the patch.

    The phantom's channels repeat until there are as many as the network takes.
    """
    phantom = _phantom(subject)
    channel_count = len(trained.task.channels)
    channels = []
    for index in range(channel_count):
        channels.append(phantom.image[index % len(phantom.image)])

    patch = (*trained.run.patch, PHANTOM_SLICES)[:3]
    x_size, y_size, z_size = patch
    shape = (zoom * x_size, zoom * y_size, zoom * z_size)
    x = network_input(channels, [None] * channel_count, shape)
    for axis, size in enumerate(patch, start=1):
        start = (x.shape[axis] - size) // 2
        x = x.narrow(axis, start, size)
    if len(trained.run.patch) == 2:
        x = x[..., PHANTOM_SLICES // 2]
    return x.contiguous()
