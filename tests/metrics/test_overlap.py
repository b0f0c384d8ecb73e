"""Overlap and volume: by hand, and against MONAI and torchmetrics."""

import pytest
import torch
from masks import box, random_masks
from monai.metrics import compute_dice, compute_iou
from torchmetrics.functional.classification import multiclass_jaccard_index

from segpl.metrics.overlap import dice, iou, mean_iou, volume, volume_error

RANDOM_MASKS = pytest.mark.parametrize(
    ("shape", "share"),
    [
        ((3, 9, 8), 0.1),
        ((3, 9, 8), 0.5),
        ((3, 9, 8), 0.9),
        ((3, 5, 6, 7), 0.1),
        ((3, 5, 6, 7), 0.5),
        ((3, 5, 6, 7), 0.9),
    ],
)


@RANDOM_MASKS
def test_iou_agrees_with_monai(shape, share):
    mask, truth = random_masks(shape, share)
    expected = compute_iou(mask[None].float(), truth[None].float())[0]
    torch.testing.assert_close(iou(mask, truth), expected)


@RANDOM_MASKS
def test_dice_agrees_with_monai(shape, share):
    mask, truth = random_masks(shape, share)
    expected = compute_dice(mask[None].float(), truth[None].float())[0]
    torch.testing.assert_close(dice(mask, truth), expected)


@RANDOM_MASKS
def test_mean_iou_agrees_with_torchmetrics(shape, share):
    mask, truth = random_masks(shape, share)
    expected = []
    for region, true_region in zip(mask.int(), truth.int(), strict=True):
        expected.append(multiclass_jaccard_index(region, true_region, num_classes=2))
    torch.testing.assert_close(mean_iou(mask, truth), torch.stack(expected))


EMPTY = torch.zeros(1, 4, 4, dtype=torch.bool)
FULL = torch.ones(1, 4, 4, dtype=torch.bool)
ONE_PIXEL = box((4, 4), (0, 0), (1, 1))


@pytest.mark.parametrize("score", [iou, dice, mean_iou])
def test_two_empty_masks_have_no_overlap_score(score):
    assert score(EMPTY, EMPTY).isnan()


@pytest.mark.parametrize("score", [iou, dice])
def test_one_empty_mask_scores_0(score):
    assert score(EMPTY, FULL) == 0
    assert score(ONE_PIXEL, EMPTY) == 0


@pytest.mark.parametrize("score", [iou, dice, mean_iou])
@pytest.mark.parametrize("mask", [FULL, ONE_PIXEL], ids=["full", "one pixel"])
def test_equal_masks_score_1(score, mask):
    assert score(mask, mask) == 1


def test_one_pixel_of_a_full_mask_by_hand():
    assert iou(ONE_PIXEL, FULL).item() == pytest.approx(1 / 16)
    assert dice(ONE_PIXEL, FULL).item() == pytest.approx(2 / 17)


def test_mean_iou_of_opposite_masks_is_0():
    assert mean_iou(EMPTY, FULL) == 0
    assert mean_iou(FULL, EMPTY) == 0


def test_mean_iou_of_an_empty_mask_is_almost_one_half():
    assert mean_iou(EMPTY, ONE_PIXEL).item() == pytest.approx((0 + 15 / 16) / 2)


HALF_ML = box((10, 10, 10), (0, 0, 0), (10, 10, 5))
ONE_ML = box((10, 10, 10), (0, 0, 0), (10, 10, 10))
NO_ML = torch.zeros(1, 10, 10, 10, dtype=torch.bool)


@pytest.mark.parametrize(
    ("spacing", "expected"),
    [((1.0, 1.0, 1.0), [0.5, 1, 0]), ((0.5, 2.0, 3.0), [1.5, 3, 0])],
)
def test_volumes_by_hand(spacing, expected):
    mask = torch.cat([HALF_ML, ONE_ML, NO_ML])
    assert volume(mask, spacing).tolist() == pytest.approx(expected)


def test_volume_errors_by_hand():
    mask = torch.cat([HALF_ML, ONE_ML, NO_ML])
    truth = torch.cat([ONE_ML, HALF_ML, NO_ML])
    assert volume_error(mask, truth, (0.5, 2.0, 3.0)).tolist() == pytest.approx([-1.5, 1.5, 0])


def test_the_volume_of_a_slice_counts_its_thickness():
    mask = torch.ones(1, 10, 10, 1, dtype=torch.bool)
    assert volume(mask, (1.0, 1.0, 5.0)).item() == pytest.approx(0.5)
