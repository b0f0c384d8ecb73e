"""No score depends on what is predicted where the label is to be ignored."""

import json

import nibabel
import numpy as np
import pandas as pd
import pytest
import torch

import segpl
from segpl.data.phantoms import write_phantoms
from segpl.evaluation.case_scores import counted_voxels, image_scores, mask_scores
from segpl.metrics.calibration import brier
from segpl.metrics.overlap import iou, mean_iou

SPACING = (1.0, 1.0, 1.0)


@pytest.fixture
def scene():
    """Masks and truth of one region, and the first third of the volume ignored."""
    rng = torch.Generator().manual_seed(0)
    truth = torch.rand(1, 12, 12, 6, generator=rng) > 0.7
    masks = truth ^ (torch.rand(1, 12, 12, 6, generator=rng) > 0.9)
    ignored = torch.zeros(1, 12, 12, 6, dtype=torch.bool)
    ignored[:, :4] = True
    return masks, truth & ~ignored, ignored


def test_mask_scores_do_not_depend_on_ignored_voxels(scene):
    masks, truth, ignored = scene
    scores = mask_scores(masks, truth, SPACING, 1.0, ignored)
    flipped = mask_scores(masks ^ ignored, truth, SPACING, 1.0, ignored)
    for name, values in scores.items():
        assert torch.equal(values, flipped[name]), name


def test_overlaps_are_those_of_the_counted_part(scene):
    masks, truth, ignored = scene
    scores = mask_scores(masks, truth, SPACING, 1.0, ignored)
    assert torch.equal(scores["iou"], iou(masks[:, 4:], truth[:, 4:]))
    assert torch.equal(scores["mean_iou"], mean_iou(masks[:, 4:], truth[:, 4:]))


def test_image_scores_do_not_depend_on_ignored_voxels(scene):
    masks, truth, ignored = scene
    table = image_scores(masks, truth, (8, 8), ["a"], ignored)
    flipped = image_scores(masks ^ ignored, truth, (8, 8), ["a"], ignored)
    pd.testing.assert_frame_equal(table, flipped)
    cut = image_scores(masks[:, 4:], truth[:, 4:], (8, 8), ["a"])
    pd.testing.assert_frame_equal(table, cut)


def test_certainty_is_that_of_the_counted_part(scene):
    masks, truth, ignored = scene
    p = masks.float() * 0.8 + 0.1
    counted = brier(counted_voxels(p, ignored), counted_voxels(truth, ignored))
    assert torch.allclose(counted, brier(p[:, 4:], truth[:, 4:]))


@pytest.mark.slow
def test_a_data_set_with_ignored_voxels_is_checked_trained_and_scored(tmp_path):
    data = write_phantoms("vessels", tmp_path / "data", subjects=6)
    for file in data.glob("labels*/*.nii.gz"):
        image = nibabel.load(file)
        label = np.asarray(image.dataobj).copy()
        label[: label.shape[0] // 2] = 255
        nibabel.save(nibabel.Nifti1Image(label, image.affine), file)
    diagnosis = segpl.doctor(data)
    assert not diagnosis.problems
    settings = {"steps": 2, "channels": 4, "patch": [16, 16, 8]}
    run = segpl.train(data, tmp_path / "run", method="segpl-em", settings=settings)
    scores = pd.read_csv(segpl.evaluate(run))
    assert scores["value"].notna().any()
    split = json.loads((run / "split.json").read_text())
    assert split["labelled"]
