"""The memory of a prediction stays below a formula that does not depend on the samples."""

import gc
import re
from functools import partial
from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch
from torch import nn
from untrained import untrained

from segpl.data.cases import Region, Task
from segpl.inference import levels as levels_module
from segpl.inference import predictor as predictor_module
from segpl.inference.predictor import Predictor
from segpl.inference.windows import slabs

CLEAR_PEAK = Path("/proc/self/clear_refs")
SHAPE = (192, 192, 64)
REGIONS = 3
SAMPLES = 8


class Bright(nn.Module):
    def forward(self, x):
        return x.expand(-1, REGIONS, *x.shape[2:])


@pytest.fixture
def predictor(tmp_path):
    run = untrained(patch=(64, 64, 4), data=tmp_path / "gone")
    regions = tuple(Region(str(number), (number,), number) for number in range(1, REGIONS + 1))
    return Predictor(run, Task(("MR",), regions), Bright(), torch.device("cpu"))


def status_megabytes(name):
    """An entry of Linux's status of this process, such as VmRSS."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    kilobytes = re.search(rf"{name}:\s+(\d+) kB", status)[1]
    return int(kilobytes) / 1000


def peak_megabytes(function):
    """The peak memory of a call, beyond what was held before."""
    gc.collect()
    CLEAR_PEAK.write_text("5")
    before = status_megabytes("VmRSS")
    function()
    return status_megabytes("VmHWM") - before


@pytest.mark.skipif(
    not CLEAR_PEAK.exists(), reason="only Linux reports the peak of a part of a program"
)
def test_memory_stays_below_the_formula(predictor, tmp_path, monkeypatch):
    monkeypatch.setattr(predictor_module, "slabs", partial(slabs, voxels=2**17))
    monkeypatch.setattr(levels_module, "SLAB", 2**17)
    voxels = np.random.default_rng(0).integers(0, 500, SHAPE).astype(np.int16)
    nibabel.save(nibabel.Nifti1Image(voxels, np.diag([1, 1, 2, 1.0])), tmp_path / "scan.nii")
    predictor.predict(voxels[..., :4], spacing=(1, 1, 2))  # allocates what is made only once

    def predict():
        prediction = predictor.predict(tmp_path / "scan.nii", samples=SAMPLES)
        prediction.save(tmp_path / "mask.nii.gz")

    maps = 2 * REGIONS
    bytes_per_voxel = max(2 + 17 + 4, 4 + 2 * maps, 2 * maps + 2 * (REGIONS + 1))
    megavoxels = voxels.size / 1e6
    limit = bytes_per_voxel * megavoxels + 60  # for slabs and windows
    all_samples = 4 * SAMPLES * REGIONS * megavoxels
    assert limit < all_samples / 1.5, "far from all samples at once"
    assert peak_megabytes(predict) < limit
