"""Prediction of a generated scan: voxels per second, beside the bare network, and the memory it takes."""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

from segpl.benchmark.machine import interleaved, peak_memory
from segpl.benchmark.steps import PLAIN, Configuration
from segpl.data.cases import Region, Task
from segpl.foundation.files import write_bytes, write_nifti
from segpl.inference.predictor import load
from segpl.inference.windows import BATCH
from segpl.methods import METHODS
from segpl.rundir import WEIGHTS_FILE
from segpl.settings.run import Run, save_task


def measure_prediction(
    configuration: Configuration, shape: tuple[int, int, int], repeats: int
) -> dict[str, Any]:
    """Predict one scan from file to file, and time what the network alone would take for its windows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_run(folder / "run", configuration)
        _write_scan(folder / "scan.nii.gz", shape)
        predictor = load(folder / "run")
        watch = Watch(predictor.model)
        started = time.perf_counter()
        memory = peak_memory(
            lambda: predictor.predict(folder / "scan.nii.gz").save(folder / "mask.nii.gz")
        )
        seconds = time.perf_counter() - started
        in_network, windows = watch.seconds, watch.windows
    count = BATCH[predictor.device.type]
    window = torch.randn(count, configuration.inputs, *configuration.patch, device=predictor.device)
    with torch.inference_mode():
        alone = interleaved({"windows": lambda: predictor.model(window)}, repeats)["windows"].median
    voxels = float(np.prod(shape))
    return {
        "shape": shape,
        "patch": configuration.patch,
        "seconds": seconds,
        "voxels_per_second": voxels / seconds,
        "windows": windows,
        "share_in_network": in_network / seconds,
        "bare_voxels_per_second": voxels / (alone * windows / count),
        "peak_memory_bytes": memory,
    }


class Watch:
    """How long a network is at work, and on how many windows."""

    def __init__(self, network: torch.nn.Module):
        self.seconds, self.windows = 0.0, 0
        network.register_forward_pre_hook(self._begin)
        network.register_forward_hook(self._end)

    def _begin(self, *_: Any) -> None:
        self.started = time.perf_counter()

    def _end(
        self, network: torch.nn.Module, given: tuple[torch.Tensor], found: torch.Tensor
    ) -> None:
        if found.is_cuda:
            torch.cuda.synchronize()
        self.seconds += time.perf_counter() - self.started
        self.windows += len(found)


def _write_run(directory: Path, configuration: Configuration) -> None:
    """A run whose weights are drawn and not trained: what they are does not change how long they take."""
    task = Task(
        tuple(f"channel {place}" for place in range(configuration.inputs)),
        tuple(
            Region(f"region {place}", (place + 1,), place + 1)
            for place in range(configuration.regions)
        ),
    )
    method = METHODS[PLAIN]()
    patch, channels = configuration.patch, configuration.channels
    run = Run(
        data=directory,
        method=method,
        patch=patch,
        channels=channels,
        steps=1,
        learning_rate=0.01,
        ratio=1,
    )
    run.save(directory)
    save_task(directory, task)
    weights = {name: weight.contiguous() for name, weight in run.build(task).state_dict().items()}
    write_bytes(directory / WEIGHTS_FILE, safetensors.torch.save(weights))


def _write_scan(file: Path, shape: tuple[int, int, int]) -> None:
    """A CT of noise: as hard to compress as a real one is."""
    values = np.random.default_rng(0).normal(0, 200, (*shape[:2], 16)).astype(np.int16)
    write_nifti(file, np.tile(values, (1, 1, -(-shape[2] // 16)))[..., : shape[2]], np.eye(4))
