"""Surface distances: by hand, by brute force, and against MONAI."""

import math
import warnings

import pytest
import torch
from masks import box, random_masks
from monai.metrics import compute_hausdorff_distance, compute_surface_dice
from scipy.ndimage import binary_erosion, generate_binary_structure
from scipy.spatial.distance import cdist

import segpl.metrics.surface
from segpl.metrics.surface import surface_scores

MM = (1.0, 1.0, 1.0)
OBLONG = (0.5, 1.25, 3.0)


def hd95(mask, truth, spacing):
    return surface_scores(mask, truth, spacing, tolerance=1.0).hd95


def surface_dice(mask, truth, spacing, tolerance):
    return surface_scores(mask, truth, spacing, tolerance).dice


def surface_points(region, spacing):
    """The positions in mm of the voxels that have a face on the background."""
    region = region.squeeze(-1).numpy()  # a single slice is a plane
    faces = generate_binary_structure(region.ndim, 1)
    surface = region & ~binary_erosion(region, faces, border_value=0)
    return torch.from_numpy(surface).nonzero() * torch.tensor(spacing[: region.ndim])


def brute_force_distances(region, true_region, spacing):
    """Every surface voxel against every other: the distances there and back."""
    distances = cdist(
        surface_points(region, spacing),
        surface_points(true_region, spacing),
    )
    return torch.from_numpy(distances.min(1)), torch.from_numpy(distances.min(0))


RANDOM_MASKS = pytest.mark.parametrize("shape", [(3, 9, 8, 1), (3, 6, 5, 7), (3, 12, 3, 2)])
SHARES = pytest.mark.parametrize("share", [0.2, 0.5, 0.95])
SPACINGS = pytest.mark.parametrize("spacing", [MM, OBLONG])


@RANDOM_MASKS
@SHARES
@SPACINGS
def test_hd95_agrees_with_brute_force(shape, share, spacing):
    mask, truth = random_masks(shape, share)
    expected = []
    for region, true_region in zip(mask, truth, strict=True):
        to_truth, to_mask = brute_force_distances(region, true_region, spacing)
        expected.append(max(to_truth.quantile(0.95), to_mask.quantile(0.95)).item())
    assert hd95(mask, truth, spacing).tolist() == pytest.approx(expected, rel=1e-5)


@RANDOM_MASKS
@SHARES
@SPACINGS
def test_surface_dice_agrees_with_brute_force(shape, share, spacing):
    mask, truth = random_masks(shape, share)
    expected = []
    for region, true_region in zip(mask, truth, strict=True):
        distances = torch.cat(brute_force_distances(region, true_region, spacing))
        expected.append((distances <= 1.3).double().mean().item())
    assert surface_dice(mask, truth, spacing, 1.3).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("limit", [0, 10**6], ids=["map", "tree"])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_surface_scores_agree_with_monai(limit, share, monkeypatch):
    monkeypatch.setattr(segpl.metrics.surface, "KD_TREE_LIMIT", limit)
    mask, truth = random_masks((2, 14, 17, 11), share)
    settings = {"include_background": True, "spacing": OBLONG}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # from MONAI's own code
        expected_hd95 = compute_hausdorff_distance(
            mask[None], truth[None], percentile=95, **settings
        )[0]
        expected_dice = compute_surface_dice(mask[None], truth[None], [1.3, 1.3], **settings)[0]
    scores = surface_scores(mask, truth, OBLONG, tolerance=1.3)
    torch.testing.assert_close(scores.hd95, expected_hd95.float())
    torch.testing.assert_close(scores.dice, expected_dice.float())


EMPTY = torch.zeros(1, 6, 8, 24, dtype=torch.bool)
ONE_VOXEL = box((6, 8, 24), (2, 2, 2), (3, 3, 3))


def test_two_empty_masks_have_no_surface_scores():
    assert hd95(EMPTY, EMPTY, MM).isnan()
    assert surface_dice(EMPTY, EMPTY, MM, 100.0).isnan()


@pytest.mark.parametrize(
    ("mask", "truth"), [(EMPTY, ONE_VOXEL), (ONE_VOXEL, EMPTY)], ids=["missed", "false"]
)
def test_one_empty_mask_costs_the_diagonal_of_the_image(mask, truth):
    diagonal = math.sqrt(6**2 + 8**2 + 12**2)
    assert hd95(mask, truth, (1.0, 1.0, 0.5)).item() == pytest.approx(diagonal)
    assert surface_dice(mask, truth, MM, 100.0) == 0


def test_equal_masks_have_no_distance():
    assert hd95(ONE_VOXEL, ONE_VOXEL, MM) == 0
    assert surface_dice(ONE_VOXEL, ONE_VOXEL, MM, 100.0) == 1


def test_each_region_has_its_own_scores():
    mask = torch.cat([EMPTY, ONE_VOXEL, ONE_VOXEL])
    truth = torch.cat([EMPTY, EMPTY, ONE_VOXEL])
    both_empty, one_empty, equal = surface_dice(mask, truth, MM, 100.0).tolist()
    assert math.isnan(both_empty)
    assert one_empty == 0
    assert equal == 1


def test_a_missed_tumour_in_a_brats_volume_costs_what_the_challenge_charges():
    truth = box((240, 240, 155), (9, 9, 9), (12, 12, 12))
    assert hd95(torch.zeros_like(truth), truth, MM).item() == pytest.approx(373.12866)


def test_a_missed_vessel_in_a_slice_costs_the_diagonal_of_the_slice():
    truth = box((30, 40, 1), (9, 9, 0), (12, 12, 1))
    assert hd95(torch.zeros_like(truth), truth, (0.1, 0.1, 99.0)).item() == pytest.approx(5)


LEFT = box((9, 9, 9), (1, 4, 4), (2, 5, 5))
RIGHT = box((9, 9, 9), (4, 8, 4), (5, 9, 5))


def test_hd95_of_two_voxels_is_their_distance_in_mm():
    """They are 3 and 4 voxels apart."""
    assert hd95(LEFT, RIGHT, MM).item() == pytest.approx(5)
    assert hd95(LEFT, RIGHT, (2.0, 0.5, 9.0)).item() == pytest.approx(math.hypot(6, 2))


def test_surface_dice_of_two_voxels_is_1_from_their_distance_on():
    assert surface_dice(LEFT, RIGHT, MM, tolerance=4.9) == 0
    assert surface_dice(LEFT, RIGHT, MM, tolerance=5.0) == 1


def test_a_tolerance_of_one_voxel_survives_a_header_that_rounds():
    neighbour = box((9, 9, 9), (2, 4, 4), (3, 5, 5))
    assert surface_dice(LEFT, neighbour, (1.000002, 1.0, 1.0), tolerance=1.0) == 1


def test_a_box_in_the_corner_is_as_far_from_a_longer_box_as_one_inside():
    """Nine of the 50 surface voxels, the far end of the longer box, are 3 mm away."""
    inside = box((9, 9, 9), (2, 2, 2), (5, 5, 5))
    longer_inside = box((9, 9, 9), (2, 2, 2), (5, 5, 8))
    assert hd95(inside, longer_inside, MM) == 3
    corner = box((3, 3, 6), (0, 0, 0), (3, 3, 3))
    longer_corner = box((3, 3, 6), (0, 0, 0), (3, 3, 6))
    assert hd95(corner, longer_corner, MM) == 3


def test_a_mask_that_fills_the_image_has_its_surface_at_the_border():
    full = torch.ones(1, 3, 3, 3, dtype=torch.bool)
    centre = box((3, 3, 3), (1, 1, 1), (2, 2, 2))
    assert hd95(full, full, MM) == 0
    assert hd95(full, centre, MM).item() == pytest.approx(math.sqrt(3))  # from its corners


LARGE_SQUARE = box((9, 9, 1), (2, 2, 0), (7, 7, 1))
SMALL_SQUARE = box((9, 9, 1), (3, 3, 0), (6, 6, 1))


def test_hd95_in_a_single_slice_is_that_of_the_outlines():
    distance = hd95(LARGE_SQUARE, SMALL_SQUARE, (1.0, 1.0, 5.0))
    assert distance.item() == pytest.approx(math.sqrt(2))


def test_surface_dice_in_a_single_slice_is_that_of_the_outlines():
    """In 3D every voxel of the slice would be surface, and the share (9 + 21) / (9 + 25)."""
    near = 12 + 8  # the larger outline without its corners, and all of the smaller one
    share = surface_dice(LARGE_SQUARE, SMALL_SQUARE, MM, tolerance=1.0)
    assert share.item() == pytest.approx(near / (16 + 8))
