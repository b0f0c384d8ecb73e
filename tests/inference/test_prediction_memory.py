"""The promise of `predict_files`: what is held does not grow beyond its formula, in which there are no samples."""

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
from segpl.inference import levels as level
from segpl.inference import predictor as module
from segpl.inference.predictor import Predictor
from segpl.inference.windows import slabs

PEAK = Path("/proc/self/clear_refs")
SHAPE, REGIONS, SAMPLES = (192, 192, 64), 3, 8


class Bright(nn.Module):
    def forward(self, x):
        return x.expand(-1, REGIONS, *x.shape[2:])


@pytest.fixture
def predictor(tmp_path):
    run = untrained(patch=(64, 64, 4), data=tmp_path / "gone")
    regions = tuple(Region(str(number), (number,), number) for number in range(1, REGIONS + 1))
    return Predictor(run, Task(("MR",), regions), Bright(), torch.device("cpu"))


def megabytes(function):
    """What a call holds at most, beyond what was held before."""

    def held(kind):
        return (
            int(
                re.search(
                    rf"{kind}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8")
                )[1]
            )
            / 1000
        )

    gc.collect()
    PEAK.write_text("5")  # Linux forgets the peak so far
    before = held("VmRSS")
    function()
    return held("VmHWM") - before


@pytest.mark.skipif(
    not PEAK.exists(), reason="only Linux can be asked for the peak of a part of a program"
)
def test_memory_stays_below_the_formula(predictor, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "slabs", partial(slabs, voxels=2**17))
    monkeypatch.setattr(level, "SLAB", 2**17)
    voxels = np.random.default_rng(0).integers(0, 500, SHAPE).astype(np.int16)
    nibabel.save(nibabel.Nifti1Image(voxels, np.diag([1, 1, 2, 1.0])), tmp_path / "scan.nii")
    predictor.predict(voxels[..., :4])  # whatever is made once

    def predict():
        predictor.predict(tmp_path / "scan.nii", samples=SAMPLES).save(tmp_path / "mask.nii.gz")

    maps = 2 * REGIONS
    formula = max(2 + 17 + 4, 4 + 2 * maps, 2 * maps + 2 * (REGIONS + 1)) * voxels.size / 1e6
    limit = formula + 60  # for slabs and windows
    assert limit < 4 * SAMPLES * REGIONS * voxels.size / 1e6 / 1.5, "far from all samples at once"
    assert megabytes(predict) < limit
