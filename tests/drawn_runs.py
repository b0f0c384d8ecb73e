"""Runs that need no training: random weights on disk, and a network with a known answer."""

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
    """Segments bright voxels, moved by 3 voxels along the first axis: left and right differ."""

    def forward(self, x):
        return 8 * (torch.roll(x[:, :1], SHIFT, dims=2) - 1)


@pytest.fixture(scope="session")
def shifted(tmp_path_factory):
    """A predictor for RAS scans of 1 x 1 x 2 mm, with the network above."""
    missing = tmp_path_factory.mktemp("missing") / "data"
    run = untrained(patch=(32, 32, 8), data=missing, spacing=list(SPACING), orientation="RAS")
    task = Task(("MR",), (Region("lesion", (5,), 5),))
    return Predictor(run, task, Shifted().eval(), torch.device("cpu"))


@pytest.fixture(scope="session")
def phantom():
    """A bright ellipsoid without symmetry, and its truth, which is 3 voxels to its right."""
    x, y, z = np.indices((40, 44, 24))
    inside = ((x - 15) / 8) ** 2 + ((y - 26) / 11) ** 2 + ((z - 9) / 6) ** 2 < 1
    noise = np.random.default_rng(0).normal(0, 5, inside.shape)
    image = np.rint(100 * inside + noise).astype(np.int16)
    truth = np.roll(inside, SHIFT, axis=0)
    return image, truth


@pytest.fixture(scope="session")
def canonical(phantom):
    """The phantom oriented like the training images: RAS, 1 x 1 x 2 mm, any origin."""
    image, _ = phantom
    affine = np.diag([*SPACING, 1.0])
    affine[:3, 3] = (-20, 5, 11)
    return nibabel.Nifti1Image(image, affine)


@pytest.fixture(scope="session")
def save_run(tumours, tmp_path_factory):
    """A function that makes a run directory for the tumour phantoms, with initial weights."""
    defaults = {"method": "segpl-vi", "patch": [32, 32], "channels": 4}
    task = read_dataset(tumours).task

    def save(**settings):
        directory = tmp_path_factory.mktemp("run")
        run = plan_run(tumours, {**defaults, **settings})
        return save_initial_weights(run, task, directory)

    return save


def save_initial_weights(run, task, directory):
    """Make a run directory of a run that was never trained."""
    run.save(directory)
    save_task(directory, task)
    weights = {}
    for name, weight in run.build(task).state_dict().items():
        weights[name] = weight.contiguous()
        if name.endswith("head.block.conv.conv.bias"):
            # With a bias of 0, masks have both foreground and background.
            weights[name] = torch.zeros_like(weight)
    (directory / WEIGHTS_FILE).write_bytes(safetensors.torch.save(weights))
    return directory


@pytest.fixture(scope="session")
def run_directory(save_run):
    """SegPL-VI with random weights: four channels, three nested regions."""
    return save_run()
