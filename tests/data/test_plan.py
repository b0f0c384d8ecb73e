"""What the plan derives from made-up folders, and why."""

import json
import os

import nibabel
import numpy as np
import pytest
import torch

from segpl.data.layouts import read_dataset
from segpl.data.loading import resample, resample_label
from segpl.data.plan import free_memory, plan
from segpl.errors import UserError
from segpl.files import write_nifti, write_text
from segpl.run import plan_run


def folder(path, shapes, spacings, channel="MR", value=0.0):
    for number, (shape, spacing) in enumerate(zip(shapes, spacings, strict=True)):
        draw = np.random.default_rng(number)
        voxels = (draw.normal(value, 100, shape)).astype(np.float32)
        affine = np.diag([*spacing, 1.0])
        write_nifti(path / f"imagesTr/c{number}_0000.nii.gz", voxels, affine)
        write_nifti(path / f"labelsTr/c{number}.nii.gz", (voxels > value + 150).astype(np.uint8), affine)
    labels = {"background": 0, "thing": 1}
    description = {"channel_names": {"0": channel}, "labels": labels, "file_ending": ".nii.gz"}
    write_text(path / "dataset.json", json.dumps(description))
    return read_dataset(path)


@pytest.mark.parametrize(
    ("shape", "spacing", "patch"),
    [
        ((96, 90, 24), (1, 1, 6), [96, 80]),  # thick slices: 2D, steps of 16
        ((300, 300, 5), (1, 1, 5), [176, 176]),  # the paper's 176
        ((35, 50, 35), (1, 1, 1), [32, 48, 32]),  # 3D, steps of 8
        ((200, 200, 100), (1, 1, 1), [40, 48, 48]),  # 3D, at most the paper's number of voxels
        ((10, 10, 8), (1, 1, 1), [16, 16, 8]),  # filled up
        ((64, 64, 1), (1, 1, 1), [64, 64]),  # one slice: 2D
        ((128, 128, 3), (1, 1, 1), [128, 128, 3]),  # thin volumes
    ],
)
def test_patches(tmp_path, shape, spacing, patch):
    planned = plan(folder(tmp_path, [shape] * 3, [spacing] * 3))
    assert planned["patch"].value == patch
    assert planned["channels"].value == (16 if len(patch) == 2 else 8)
    assert planned["spacing"].value is None


def test_spacings_that_differ_are_brought_to_their_median(tmp_path):
    data = folder(tmp_path, [(40, 40, 20)] * 3, [(1, 1, 1), (1, 1, 2), (1, 1, 2)])
    assert plan(data)["spacing"].value == [1, 1, 2]


def test_depth_and_strides_are_written_down_and_can_be_changed(tmp_path):
    folder(tmp_path, [(64, 64, 32)] * 2, [(1, 1, 1)] * 2)
    run = plan_run(tmp_path, {"method": "supervised"})
    assert run.patch == (48, 56, 32)
    assert run.strides == ((1, 1, 1), (2, 2, 2), (2, 2, 2), (2, 2, 2))
    task = read_dataset(tmp_path).task
    assert len(run.build(task).widths) == len(run.strides)
    flatter = plan_run(tmp_path, {"method": "supervised", "strides": [[1, 1, 1], [2, 2, 1], [2, 2, 1]]})
    assert len(flatter.build(task).widths) == 3
    assert plan_run(tmp_path, {"method": "supervised", "patch": [16, 16, 8]}).strides is None
    with pytest.raises(UserError, match="strides must"):
        plan_run(tmp_path, {"method": "supervised", "strides": [[1, 1, 1], [3, 3, 3], [7, 7, 7]]})


def test_scarce_memory_halves_the_batch(tmp_path, monkeypatch):
    data = folder(tmp_path, [(64, 64, 32)] * 2, [(1, 1, 1)] * 2)
    assert plan(data)["batch"].value == 2
    monkeypatch.setattr("segpl.data.plan.free_memory", lambda: 5 * 10**8)
    assert plan(data)["batch"].value == 1


def test_memory_that_the_system_lends_to_files_is_free(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("segpl.data.plan.MEMORY", tmp_path / "meminfo")
    assert free_memory() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "where nobody says, all there is"
    (tmp_path / "meminfo").write_text("MemTotal: 900 kB\nMemFree:  5 kB\nMemAvailable:     700 kB\n")
    assert free_memory() == 700 * 1024


def test_ct_is_clipped_and_mr_is_not(tmp_path):
    ct = plan(folder(tmp_path / "ct", [(32, 32, 32)] * 2, [(1, 1, 1)] * 2, "CT", -500.0))
    low, high = ct["window"].value
    assert low == pytest.approx(-500 - 2.58 * 100, abs=30)
    assert high == pytest.approx(-500 + 2.58 * 100, abs=30)
    assert plan(folder(tmp_path / "mr", [(32, 32, 32)] * 2, [(1, 1, 1)] * 2))["window"].value is None


def test_only_the_ct_channel_is_clipped(tmp_path):
    draw = np.random.default_rng(0)
    for number, value in enumerate((2.0, -500.0)):
        write_nifti(
            tmp_path / f"imagesTr/c_{number:04}.nii.gz",
            draw.normal(value, 1 if not number else 100, (32, 32, 32)),
            np.eye(4),
        )
    channels = {"channel_names": {"0": "PET", "1": "CT"}, "labels": {"background": 0, "a": 1}, "file_ending": ".nii.gz"}
    write_text(tmp_path / "dataset.json", json.dumps(channels))
    low, high = plan(read_dataset(tmp_path))["window"].value
    assert low < -600 < -400 < high < 0


def test_thin_structures_survive_resampling():
    y = torch.zeros(1, 40, 40, 40, dtype=torch.bool)
    y[0, ::4] = True  # sheets of one voxel
    for factor in (1.3, 0.9, 0.7):
        share = resample_label(y, tuple(round(40 * factor) for _ in range(3))).float().mean() / y.float().mean()
        assert share == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize(("step", "rate"), [(1, 0.01), (5, 0.003)], ids=["volumes", "planes"])
def test_planes_learn_more_slowly_than_volumes(tmp_path, step, rate):
    folder(tmp_path, [(40, 40, 20)] * 3, [(1, 1, step)] * 3)
    run = plan_run(tmp_path, {"method": "supervised"})
    assert (run.learning_rate, run.ratio) == (rate, 1)
    assert plan_run(tmp_path, {"method": "supervised", "learning_rate": 0.1}).learning_rate == 0.1


def test_a_run_says_why_and_forgets_the_reason_for_what_was_overruled(tmp_path):
    folder(tmp_path, [(40, 40, 20)] * 3, [(1, 1, 1)] * 3)
    run = plan_run(tmp_path, {"method": "supervised"})
    assert run.why.keys() >= {"patch", "channels", "spacing", "window", "ratio", "learning_rate"}
    assert "patch" not in plan_run(tmp_path, {"method": "supervised", "patch": [16, 16, 16]}).why


def test_a_resampled_run_scores_in_the_images_own_geometry(tmp_path):
    from segpl.evaluation import evaluate
    from segpl.training import train

    shapes = [(40, 40, 20), (40, 40, 10), (40, 40, 10), (40, 40, 20)]
    folder(tmp_path / "data", shapes, [(1, 1, 1), (1, 1, 2), (1, 1, 2), (1, 1, 1)])
    small = {"steps": 2, "channels": 4, "patch": [16, 16, 8]}
    run = plan_run(tmp_path / "data", {"method": "supervised", **small})
    assert run.spacing is not None
    evaluate(train(run, tmp_path / "run"))
    for mask in (tmp_path / "run/masks").glob("*.nii.gz"):
        image = nibabel.load(tmp_path / "data/labelsTr" / mask.name)
        assert nibabel.load(mask).shape == image.shape
        assert np.allclose(nibabel.load(mask).affine, image.affine)


def test_axes_that_shrink_are_averaged_though_another_grows():
    """A thin sheet keeps a third of its brightness wherever it lies; sampled, it would be whole or gone."""
    for place in range(12, 24):
        x = torch.zeros(1, 36, 36, 20)
        x[:, place] = 1
        for depth in (20, 21):
            sheet = resample(x, (12, 12, depth))
            assert sheet.sum((1,)).mean().item() == pytest.approx(1 / 3, abs=1e-5)
            assert sheet.max().item() == pytest.approx(1 / 3, abs=1e-5)
