import math
import warnings

import pytest
import torch
from monai.metrics import (
    compute_dice,
    compute_hausdorff_distance,
    compute_iou,
    compute_surface_dice,
)
from scipy.ndimage import binary_erosion, generate_binary_structure
from scipy.spatial.distance import cdist
from torchmetrics.functional.classification import multiclass_jaccard_index

import segpl.metrics.surface
from segpl.metrics.overlap import dice, iou, mean_iou, volume, volume_error
from segpl.metrics.surface import surface_scores

MM = (1.0, 1.0, 1.0)


def hd95(mask, truth, spacing):
    return surface_scores(mask, truth, spacing, tolerance=1.0).hd95


def surface_dice(mask, truth, spacing, tolerance):
    return surface_scores(mask, truth, spacing, tolerance).dice


def random_masks(shape, share, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return tuple(torch.rand(shape, generator=draw) < share for _ in range(2))


def box(shape, *corners):
    """One region: a box from the first corner up to, and not with, the second."""
    mask = torch.zeros(1, *shape, dtype=torch.bool)
    mask[(0, *(slice(*ends) for ends in zip(*corners, strict=True)))] = True
    return mask


def surface_distances(mask, truth, spacing):
    """By brute force: every surface voxel against every other; a surface voxel has a face without foreground."""
    points = []
    for region in (
        mask.squeeze(-1).numpy(),
        truth.squeeze(-1).numpy(),
    ):  # a single slice is a plane
        inner = binary_erosion(region, generate_binary_structure(region.ndim, 1), border_value=0)
        points.append(
            torch.from_numpy(region & ~inner).nonzero() * torch.tensor(spacing[: region.ndim])
        )
    distances = cdist(*points)
    return torch.from_numpy(distances.min(1)), torch.from_numpy(distances.min(0))


@pytest.mark.parametrize("shape", [(3, 9, 8), (3, 5, 6, 7)])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_agree_with_other_libraries_on_random_masks(shape, share):
    mask, truth = random_masks(shape, share)
    torch.testing.assert_close(
        iou(mask, truth), compute_iou(mask[None].float(), truth[None].float())[0]
    )
    torch.testing.assert_close(
        dice(mask, truth), compute_dice(mask[None].float(), truth[None].float())[0]
    )
    both = [
        multiclass_jaccard_index(m.int(), t.int(), num_classes=2)
        for m, t in zip(mask, truth, strict=True)
    ]
    torch.testing.assert_close(mean_iou(mask, truth), torch.stack(both))


def test_awkward_masks_by_hand():
    empty, full = torch.zeros(1, 4, 4, dtype=torch.bool), torch.ones(1, 4, 4, dtype=torch.bool)
    one = empty.clone()
    one[0, 0, 0] = True
    assert torch.isnan(iou(empty, empty)).all()
    assert torch.isnan(dice(empty, empty)).all()
    assert iou(empty, full) == dice(empty, one) == iou(one, empty) == 0
    assert iou(full, full) == dice(one, one) == 1
    assert iou(one, full).item() == pytest.approx(1 / 16)
    assert dice(one, full).item() == pytest.approx(2 / 17)


def test_mean_iou_of_awkward_masks_by_hand():
    empty, full = torch.zeros(1, 4, 4, dtype=torch.bool), torch.ones(1, 4, 4, dtype=torch.bool)
    one = empty.clone()
    one[0, 0, 0] = True
    assert mean_iou(empty, empty).isnan()
    assert mean_iou(full, full) == 1
    assert mean_iou(empty, full) == mean_iou(full, empty) == 0
    assert mean_iou(one, one) == 1
    assert mean_iou(empty, one).item() == pytest.approx((0 + 15 / 16) / 2)


@pytest.mark.parametrize("shape", [(3, 9, 8, 1), (3, 6, 5, 7), (3, 12, 3, 2)])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.95])
@pytest.mark.parametrize("spacing", [MM, (0.5, 1.25, 3.0)])
def test_surface_scores_agree_with_brute_force_on_random_masks(shape, share, spacing):
    mask, truth = random_masks(shape, share)
    distances, near = (
        hd95(mask, truth, spacing).tolist(),
        surface_dice(mask, truth, spacing, tolerance=1.3).tolist(),
    )
    for k in range(len(mask)):
        there, back = surface_distances(mask[k], truth[k], spacing)
        assert distances[k] == pytest.approx(
            max(there.quantile(0.95), back.quantile(0.95)).item(), rel=1e-5
        )
        assert near[k] == pytest.approx((torch.cat([there, back]) <= 1.3).double().mean().item())


@pytest.mark.parametrize("few", [0, 10**6], ids=["map", "tree"])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_surface_scores_agree_with_monai_on_random_masks(few, share, monkeypatch):
    monkeypatch.setattr(segpl.metrics.surface, "FEW", few)
    mask, truth = random_masks((2, 14, 17, 11), share)
    spacing, one = (0.5, 1.25, 3.0), {"include_background": True, "spacing": (0.5, 1.25, 3.0)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # MONAI warns of how it calls itself
        farthest = compute_hausdorff_distance(mask[None], truth[None], percentile=95, **one)[0]
        near = compute_surface_dice(mask[None], truth[None], [1.3, 1.3], **one)[0]
    found = surface_scores(mask, truth, spacing, tolerance=1.3)
    torch.testing.assert_close(found.hd95, farthest.float())
    torch.testing.assert_close(found.dice, near.float())


def test_surface_scores_of_empty_masks():
    empty, one = (
        torch.zeros(4, 6, 8, 24, dtype=torch.bool),
        box((6, 8, 24), (2, 2, 2), (3, 3, 3))[0],
    )
    mask, truth = empty.clone(), empty.clone()
    mask[1] = truth[2] = mask[3] = truth[3] = one
    nothing, predicted, missed, found = hd95(mask, truth, (1.0, 1.0, 0.5)).tolist()
    assert math.isnan(nothing)
    assert predicted == missed == pytest.approx(math.sqrt(6**2 + 8**2 + 12**2))
    assert found == 0
    nothing, *rest = surface_dice(mask, truth, MM, tolerance=100.0).tolist()
    assert math.isnan(nothing)
    assert rest == [0, 0, 1]


def test_a_missed_tumour_in_a_brats_volume_costs_what_the_challenge_charges():
    truth = box((240, 240, 155), (9, 9, 9), (12, 12, 12))
    assert hd95(torch.zeros_like(truth), truth, MM).item() == pytest.approx(373.12866)


def test_a_missed_vessel_in_a_slice_costs_the_diagonal_of_the_slice():
    truth = box((30, 40, 1), (9, 9, 0), (12, 12, 1))
    assert hd95(torch.zeros_like(truth), truth, (0.1, 0.1, 99.0)).item() == pytest.approx(5)


def test_no_region_with_a_surface_is_no_trouble():
    empty = torch.zeros(2, 4, 4, 4, dtype=torch.bool)
    assert hd95(empty, empty, MM).isnan().all()
    assert surface_dice(empty, empty, MM, 1.0).isnan().all()


def test_two_voxels_apart_by_hand():
    left, right = box((9, 9, 9), (1, 4, 4), (2, 5, 5)), box((9, 9, 9), (4, 8, 4), (5, 9, 5))
    assert hd95(left, right, MM).item() == pytest.approx(5)  # 3 and 4 voxels
    assert hd95(left, right, (2.0, 0.5, 9.0)).item() == pytest.approx(math.hypot(6, 2))
    assert surface_dice(left, right, MM, tolerance=4.9) == 0
    assert surface_dice(left, right, MM, tolerance=5.0) == 1


def test_the_border_of_the_image_is_a_surface_like_any_other():
    """A box in the corner and the same box away from it are as far from their larger neighbours."""
    inner = hd95(box((9, 9, 9), (2, 2, 2), (5, 5, 5)), box((9, 9, 9), (2, 2, 2), (5, 5, 8)), MM)
    corner = hd95(box((3, 3, 6), (0, 0, 0), (3, 3, 3)), box((3, 3, 6), (0, 0, 0), (3, 3, 6)), MM)
    assert corner == inner == 3  # nine of the 50 surface voxels, the far end, are 3 away
    full = torch.ones(1, 3, 3, 3, dtype=torch.bool)
    assert hd95(full, full, MM) == 0
    centre = box((3, 3, 3), (1, 1, 1), (2, 2, 2))
    assert hd95(full, centre, MM).item() == pytest.approx(
        math.sqrt(3)
    )  # its corners are on the surface


def test_a_disc_in_a_single_slice_has_an_outline_and_no_inside():
    """As a volume every voxel of a slice would be surface, and the share (9 + 21) / (9 + 25)."""
    large, small = box((9, 9, 1), (2, 2, 0), (7, 7, 1)), box((9, 9, 1), (3, 3, 0), (6, 6, 1))
    assert hd95(large, small, (1.0, 1.0, 5.0)).item() == pytest.approx(math.sqrt(2))
    near = 12 + 8  # all of the larger outline but its corners, all of the smaller one
    assert surface_dice(large, small, MM, tolerance=1.0).item() == pytest.approx(near / (16 + 8))


def test_a_tolerance_of_one_voxel_survives_a_header_that_rounds():
    left, right = box((9, 9, 9), (1, 4, 4), (2, 5, 5)), box((9, 9, 9), (2, 4, 4), (3, 5, 5))
    assert surface_dice(left, right, (1.000002, 1.0, 1.0), tolerance=1.0) == 1


def test_volumes_by_hand():
    mask, truth = (
        box((10, 10, 10), (0, 0, 0), (10, 10, 5)),
        box((10, 10, 10), (0, 0, 0), (10, 10, 10)),
    )
    masks, truths = torch.cat([mask, truth, mask & ~mask]), torch.cat([truth, mask, mask & ~mask])
    assert volume(masks, (1.0, 1.0, 1.0)).tolist() == pytest.approx([0.5, 1, 0])
    assert volume(masks, (0.5, 2.0, 3.0)).tolist() == pytest.approx([1.5, 3, 0])
    assert volume_error(masks, truths, (0.5, 2.0, 3.0)).tolist() == pytest.approx([-1.5, 1.5, 0])


def test_the_volume_of_a_slice_counts_its_thickness():
    assert volume(
        torch.ones(1, 10, 10, 1, dtype=torch.bool), (1.0, 1.0, 5.0)
    ).item() == pytest.approx(0.5)
