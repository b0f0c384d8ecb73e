"""Runs that cost no training: random weights on disk, and a network whose answer can be written down."""

import nibabel
import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn
from untrained import untrained

from segpl.data.cases import Region, Task
from segpl.data.layouts import read_dataset
from segpl.inference.predictor import Predictor
from segpl.rundir import WEIGHTS_FILE
from segpl.settings.planning import plan_run
from segpl.settings.run import save_task

SHIFT = 3
SPACING = (1.0, 1.0, 2.0)


class Shifted(nn.Module):
    """Finds what is bright, three voxels further along the first axis: it knows left from right."""

    def forward(self, x):
        return 8 * (torch.roll(x[:, :1], SHIFT, dims=2) - 1)


@pytest.fixture(scope="session")
def shifted(tmp_path_factory):
    """A predictor that was trained, so to speak, on RAS scans of 1 x 1 x 2 mm."""
    gone = tmp_path_factory.mktemp("gone") / "data"
    run = untrained(patch=(32, 32, 8), data=gone, spacing=list(SPACING), orientation="RAS")
    task = Task(("MR",), (Region("lesion", (5,), 5),))
    return Predictor(run, task, Shifted().eval(), torch.device("cpu"))


@pytest.fixture(scope="session")
def phantom():
    """A bright ellipsoid that no flip and no turn maps onto itself, and the truth three voxels to its right."""
    x, y, z = np.meshgrid(*map(np.arange, (40, 44, 24)), indexing="ij")
    inside = ((x - 15) / 8) ** 2 + ((y - 26) / 11) ** 2 + ((z - 9) / 6) ** 2 < 1
    noise = np.random.default_rng(0).normal(0, 5, inside.shape)
    return np.rint(100 * inside + noise).astype(np.int16), np.roll(inside, SHIFT, axis=0)


@pytest.fixture(scope="session")
def canonical(phantom):
    """The phantom as the training images lie: RAS, 1 x 1 x 2 mm, the origin somewhere."""
    affine = np.diag([*SPACING, 1.0])
    affine[:3, 3] = -20, 5, 11
    return nibabel.Nifti1Image(phantom[0], affine)


@pytest.fixture(scope="session")
def save_run(tumours, tmp_path_factory):
    """Makes run directories for the tumour phantoms, with the weights that a run begins with."""
    task = read_dataset(tumours).task

    def save(**settings):
        directory = tmp_path_factory.mktemp("run")
        run = plan_run(
            tumours, {"method": "segpl-vi", "patch": [32, 32], "channels": 4, **settings}
        )
        run.save(directory)
        save_task(directory, task)
        weights = {
            name: weight.contiguous() for name, weight in run.build(task).state_dict().items()
        }
        for name in weights:
            if name.endswith("head.block.conv.conv.bias"):
                weights[name] = torch.zeros_like(
                    weights[name]
                )  # so that masks have foreground and background
        (directory / WEIGHTS_FILE).write_bytes(safetensors.torch.save(weights))
        return directory

    return save


@pytest.fixture(scope="session")
def run_directory(save_run):
    """SegPL-VI with random weights: four channels, three nested regions."""
    return save_run()
