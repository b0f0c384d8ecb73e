"""Prediction of a generated scan: its speed, that of the network alone, and the memory it takes."""

import tempfile
import time
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import torch

from segpl.benchmark.machine import interleaved, peak_memory
from segpl.benchmark.steps import PLAIN, Configuration
from segpl.data.cases import Region, Task
from segpl.foundation.files import write_bytes, write_nifti
from segpl.inference.predictor import Predictor, load
from segpl.inference.windows import BATCH
from segpl.methods import METHODS
from segpl.rundir import WEIGHTS_FILE
from segpl.settings.run import Run, save_task

Shape = tuple[int, int, int]

NOISE_SLICES = 16
"""Slices of noise that repeat along Z."""


class PredictionCost(NamedTuple):
    """The cost of a prediction from file to file."""

    seconds: float
    seconds_in_network: float
    windows: int
    peak_memory_bytes: int


def measure_prediction(
    configuration: Configuration,
    shape: Shape,
    repeats: int,
) -> dict[str, Any]:
    """Predict one scan from file to file, and time the network alone on as many windows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_run(folder / "run", configuration)
        _write_scan(folder / "scan.nii.gz", shape)
        predictor = load(folder / "run")
        cost = _predict(predictor, folder / "scan.nii.gz", folder / "mask.nii.gz")
    network_seconds = cost.windows * _seconds_per_window(predictor, configuration, repeats)
    voxels = float(np.prod(shape))
    return {
        "shape": shape,
        "patch": configuration.patch,
        "seconds": cost.seconds,
        "voxels_per_second": voxels / cost.seconds,
        "windows": cost.windows,
        "share_in_network": cost.seconds_in_network / cost.seconds,
        "bare_voxels_per_second": voxels / network_seconds,
        "peak_memory_bytes": cost.peak_memory_bytes,
    }


def _predict(predictor: Predictor, scan: Path, mask: Path) -> PredictionCost:
    timer = NetworkTimer(predictor.model)
    started = time.perf_counter()
    memory = peak_memory(lambda: predictor.predict(scan).save(mask))
    seconds = time.perf_counter() - started
    return PredictionCost(seconds, timer.seconds, timer.windows, memory)


def _seconds_per_window(
    predictor: Predictor,
    configuration: Configuration,
    repeats: int,
) -> float:
    """The time of the bare network for a batch of windows, divided by their number."""
    device = predictor.device
    count = BATCH[device.type]
    windows = torch.randn(count, configuration.inputs, *configuration.patch, device=device)
    with torch.inference_mode():
        timings = interleaved({"windows": lambda: predictor.model(windows)}, repeats)
    return timings["windows"].median / count


class NetworkTimer:
    """How many seconds a network computes, and on how many windows."""

    def __init__(self, network: torch.nn.Module):
        self.seconds = 0.0
        self.windows = 0
        self.started = 0.0
        network.register_forward_pre_hook(self._start)
        network.register_forward_hook(self._stop)

    def _start(self, *_: Any) -> None:
        self.started = time.perf_counter()

    def _stop(
        self,
        _network: torch.nn.Module,
        _inputs: Any,
        logits: torch.Tensor,
    ) -> None:
        if logits.is_cuda:
            torch.cuda.synchronize()
        self.seconds += time.perf_counter() - self.started
        self.windows += len(logits)


def _write_run(directory: Path, configuration: Configuration) -> None:
    """A run with random weights: their values do not change the time that they take."""
    channels = [f"channel {index}" for index in range(configuration.inputs)]
    regions = []
    for index in range(configuration.regions):
        value = index + 1
        regions.append(Region(f"region {index}", (value,), value))
    task = Task(tuple(channels), tuple(regions))
    run = Run(
        data=directory,
        method=METHODS[PLAIN](),
        patch=configuration.patch,
        channels=configuration.channels,
        steps=1,
        learning_rate=0.01,
        ratio=1,
    )
    run.save(directory)
    save_task(directory, task)
    weights = {}
    for name, weight in run.build(task).state_dict().items():
        weights[name] = weight.contiguous()
    write_bytes(directory / WEIGHTS_FILE, safetensors.torch.save(weights))


def _write_scan(file: Path, shape: Shape) -> None:
    """A CT scan of noise, which is as hard to compress as a real one."""
    x, y, z = shape
    generator = np.random.default_rng(0)
    noise = generator.normal(0, 200, (x, y, NOISE_SLICES)).astype(np.int16)
    copies = ceil(z / NOISE_SLICES)
    repeated = np.tile(noise, (1, 1, copies))
    write_nifti(file, repeated[..., :z], np.eye(4))
