"""Which predictions are flagged: scans unlike the training scans, and a low expected Dice."""

import csv

import nibabel
import numpy as np
import pytest
import torch

from segpl.data.layouts import read_dataset
from segpl.data.likeness import (
    FEWEST_SCANS,
    read_statistics,
    scan_statistics,
    summarise,
    write_statistics,
)
from segpl.data.scans import read_scan
from segpl.inference.numbers import RegionNumbers
from segpl.inference.predictor import load
from segpl.prediction import predict_files
from segpl.prediction.flags import LOW_DICE, reason_to_check
from segpl.prediction.request import Request


def smooth_scan(seed, shape=(1, 24, 28, 12)):
    """A scan of soft blobs."""
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(seed))[None]
    blurred = torch.nn.functional.avg_pool3d(noise, 5, stride=1, padding=2)[0]
    return (blurred - blurred.mean()) / blurred.std()


@pytest.fixture
def training():
    return summarise(scan_statistics(smooth_scan(seed), ["MR"]) for seed in range(10))


def test_scans_like_those_of_the_training_are_not_flagged(training):
    for seed in range(10, 30):
        likeness = training.likeness(scan_statistics(smooth_scan(seed), ["MR"]))
        assert not likeness.is_unlike, likeness


@pytest.mark.parametrize(
    ("change", "statistic"),
    [
        (lambda x: torch.randn(x.shape), "texture of MR along"),
        (lambda x: x.repeat(1, 3, 1, 1), "size along X"),
        (lambda x: x.exp() / x.exp().std(), "grey values of MR"),
        (lambda x: 0 * x, "of MR"),
    ],
    ids=["noise", "size", "contrast", "empty"],
)
def test_other_scans_are_flagged_with_what_is_unusual(training, change, statistic):
    likeness = training.likeness(scan_statistics(change(smooth_scan(50)), ["MR"]))
    assert likeness.is_unlike
    assert statistic in likeness.statistic


def test_too_few_training_scans_tell_nothing():
    scans = [scan_statistics(smooth_scan(seed), ["MR"]) for seed in range(FEWEST_SCANS - 1)]
    assert summarise(scans).likeness(scans[0]) is None


def test_statistics_survive_the_run_directory(training, tmp_path):
    write_statistics(tmp_path, training)
    assert read_statistics(tmp_path) == training
    assert read_statistics(tmp_path / "other") is None


def numbers(expected_dice):
    return RegionNumbers(1.0, 0.5, 1.5, expected_dice, 0.1, float("nan"))


def test_a_low_expected_dice_is_a_reason_to_check():
    assert reason_to_check(numbers(LOW_DICE + 0.01), None) == ""
    assert reason_to_check(numbers(LOW_DICE - 0.01), None) == "expected Dice below 0.8"
    assert reason_to_check(numbers(float("nan")), None) == ""


def test_the_table_says_which_scans_to_check(save_run, tumours, tmp_path):
    directory = save_run()
    dataset = read_dataset(tumours)
    predictor = load(directory)
    cases = [*dataset.training, *dataset.test]
    scans = []
    for case in cases:
        prepared = predictor.prepare(read_scan(case.unlabelled()))
        scans.append(scan_statistics(prepared.x, dataset.task.channels))
    write_statistics(directory, summarise(scans))
    known = cases[0].images[0].parent
    noise = tmp_path / "noise.nii.gz"
    voxels = np.random.default_rng(0).normal(size=(64, 64, 12, 4)).astype(np.float32)
    affine = nibabel.load(cases[0].images[0]).affine
    nibabel.save(nibabel.Nifti1Image(voxels, affine), noise)
    table = predict_files(directory, [known, noise], Request(tmp_path / "out"))
    with table.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    for row in rows:
        is_noise = row["case"] == "noise"
        assert ("unlike the training scans" in row["check"]) == is_noise, row
        assert (float(row["unlike_training"]) > 4) == is_noise
