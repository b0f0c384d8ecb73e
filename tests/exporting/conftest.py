"""Run directories to export: random weights serve as well as trained ones."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from reference import reference_volume
from untrained import untrained

from segpl.data.cases import Case, Region, Task
from segpl.data.formats import read_image
from segpl.data.preparation import load
from segpl.data.resampling import resample
from segpl.exporting.trained import read_trained
from segpl.inference.label_map import merge_regions
from segpl.rundir import SPLIT_FILE, WEIGHTS_FILE
from segpl.settings.run import save_task

TASK = Task(("T1", "FLAIR"), (Region("whole", (1, 2), 1), Region("core", (2,), 2)))


def perturbed(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """First weights with as much foreground as background in their masks, and phi off its prior.

    Thresholds then differ between images and classes, and matter.
    """
    generator = torch.Generator().manual_seed(1)
    for name, weight in weights.items():
        if name.endswith("head.block.conv.conv.bias"):
            weight.zero_()
        if "phi.numbers" in name:
            shift = 1.5 if name.endswith("bias") else 0.0
            weight += shift + torch.randn(weight.shape, generator=generator) * 0.7
    return {name: weight.contiguous() for name, weight in weights.items()}


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Makes a run directory of a method with random weights."""

    def make(
        method: object = "segpl",
        patch: tuple[int, ...] = (16, 16),
        task: Task = TASK,
        split: dict[str, list[str]] | None = None,
        **settings: object,
    ) -> Path:
        run = untrained(method, patch, **settings)
        directory = tmp_path / "run"
        run.save(directory)
        save_task(directory, task)
        weights = perturbed(run.build(task).state_dict())
        safetensors.torch.save_file(weights, directory / WEIGHTS_FILE)
        if split:
            (directory / SPLIT_FILE).write_text(json.dumps(split))
        return directory

    return make


@pytest.fixture
def own_mask() -> Callable[..., object]:
    """The label map that the run itself makes of the files of a scan, and the maps behind it."""

    def make(directory: Path, *files: Path) -> object:
        run, task, model, _ = read_trained(directory)
        x = load(Case("scan", "scan", files), task, run.preparation).x

        def predict(window: torch.Tensor) -> torch.Tensor:
            return run.method.predict(model, window).samples

        p = reference_volume(predict, x, run.patch)
        p = resample(p, read_image(files[0]).values.shape[1:])
        return merge_regions(p.mean(0) > 0.5, task.regions), p[0]

    return make
