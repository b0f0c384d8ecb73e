"""What labels show about objects, worked out by hand."""

import math

import numpy as np
import pytest

from segpl.data.cases import Case, Region
from segpl.foundation.files import write_nifti
from segpl.settings.objects import (
    Components,
    Label,
    bounding_box,
    count_components,
    extent,
    is_always_single,
    is_single_component,
    nested_pairs,
    read_label,
    relative_error_of_mean_size,
    round_trip_iou,
)

LARGER_THAN_ALL = (1000, 1000, 1000)
EMPTY = np.zeros((4, 4, 4), dtype=bool)


def block(shape, x, y, z):
    """A mask of a block, given by (start, stop) along each axis."""
    mask = np.zeros(shape, dtype=bool)
    mask[slice(*x), slice(*y), slice(*z)] = True
    return mask


def test_a_block_loses_nothing_on_its_own_grid_and_little_on_one_that_it_fits():
    mask = block((64, 64, 64), (24, 40), (24, 40), (24, 40))
    assert round_trip_iou(mask, (1, 1, 1), (1, 1, 1)) == 1
    assert round_trip_iou(mask, (1, 1, 1), (2, 2, 2)) > 0.9


def test_a_sheet_thinner_than_half_a_coarse_voxel_is_lost():
    sheet = block((48, 16, 16), (24, 25), (0, 16), (0, 16))
    assert round_trip_iou(sheet, (1, 1, 1), (4, 1, 1)) == 0


def test_the_coarse_grid_begins_at_the_corner_of_the_image():
    """4 mm on coarse voxels of 4 mm: one is full, or two are half full and none exceeds 1/2."""
    aligned = block((64, 8, 8), (28, 32), (0, 8), (0, 8))
    straddling = block((64, 8, 8), (30, 34), (0, 8), (0, 8))
    assert round_trip_iou(aligned, (1, 1, 1), (4, 1, 1)) == 1
    assert round_trip_iou(straddling, (1, 1, 1), (4, 1, 1)) == 0
    assert round_trip_iou(aligned, (1, 1, 1), (4, 1, 1), corner=(2, 0, 0)) == 0
    assert round_trip_iou(straddling, (1, 1, 1), (4, 1, 1), corner=(2, 0, 0)) == 1


def test_the_iou_of_an_absent_region_is_nan():
    assert math.isnan(round_trip_iou(EMPTY, (1, 1, 1), (2, 2, 1)))


def test_the_rest_of_a_large_volume_does_not_matter():
    small = block((40, 40, 40), (16, 24), (16, 24), (16, 24))
    large = block((160, 160, 160), (76, 84), (76, 84), (76, 84))
    in_small = round_trip_iou(small, (1, 1, 1), (2, 2, 2))
    in_large = round_trip_iou(large, (1, 1, 1), (2, 2, 2))
    assert in_small == pytest.approx(in_large, abs=0.01)


def test_of_a_huge_region_only_the_middle_is_resampled(monkeypatch):
    monkeypatch.setattr("segpl.settings.objects.MAX_VOXELS", 40 * 40 * 10)
    mask = block((40, 40, 60), (0, 40), (0, 40), (0, 5))
    mask[10:30, 10:30, 40:] = True
    assert round_trip_iou(mask, (1, 1, 1), (1, 1, 1)) == 1
    assert round_trip_iou(mask, (1, 1, 1), (2, 2, 1)) > 0.9


def test_a_bounding_box_is_tight_or_has_a_margin():
    mask = block((20, 30, 10), (5, 10), (2, 20), (9, 10))
    assert bounding_box(mask) == (slice(5, 10), slice(2, 20), slice(9, 10))
    assert bounding_box(mask, (1, 5, 2))[:2] == (slice(4, 11), slice(0, 25))


def test_an_extent_is_in_millimetres():
    mask = block((20, 30, 10), (5, 10), (2, 20), (9, 10))
    assert extent(mask, (1, 0.5, 3)) == (5, 9, 3)
    assert extent(EMPTY, (1, 1, 1)) is None


def test_a_label_is_cropped_to_its_foreground_with_a_margin(tmp_path):
    values = np.zeros((50, 50, 20), dtype=np.uint8)
    values[20:30, 20:30, 5:10] = 2
    write_nifti(tmp_path / "a.nii.gz", values, np.diag([1.0, 1, 2, 1]))
    label = read_label(Case("a", "anna", (), tmp_path / "a.nii.gz"), margin=4)
    assert label.values.shape == (18, 18, 9)
    assert label.spacing == (1, 1, 2)
    assert label.extent() == (10, 10, 10)
    assert label.corner == (16, 16, 3)
    assert label.mask(Region("present", (2,), 2)).sum() == 500
    assert label.mask(Region("absent", (1,), 1)).sum() == 0


def test_an_empty_label_is_none(tmp_path):
    write_nifti(tmp_path / "a.nii.gz", np.zeros((8, 8, 8), dtype=np.uint8), np.eye(4))
    assert read_label(Case("a", "anna", (), tmp_path / "a.nii.gz"), margin=4) is None


def test_voxels_that_touch_at_a_corner_are_connected():
    mask = np.zeros((10, 10), dtype=bool)
    mask[:5, :5] = True
    mask[5:, 5:] = True
    assert is_single_component(mask, LARGER_THAN_ALL[:2])
    mask[5, 5] = False
    assert not is_single_component(mask, LARGER_THAN_ALL[:2])


def test_specks_of_less_than_a_twentieth_do_not_count():
    mask = np.zeros((10, 10), dtype=bool)
    mask[:4, :5] = True
    mask[9, 9] = True
    assert is_single_component(mask, LARGER_THAN_ALL[:2]), "1 of 21 voxels"
    mask[9, 7] = True
    assert not is_single_component(mask, LARGER_THAN_ALL[:2]), "2 of 22 voxels"


def test_a_region_must_be_one_component_in_each_patch():
    """Two long bars with one bridge: together one component, but two in a patch without it."""
    bars = np.zeros((40, 10), dtype=bool)
    bars[:, :3] = True
    bars[:, 7:] = True
    bars[0] = True
    assert is_single_component(bars, (40, 10))
    assert not is_single_component(bars, (10, 10))


def test_components_are_counted_by_slice_in_2d_and_by_volume_in_3d():
    """An arch: two legs in the lower slices, one component above."""
    arch = np.zeros((12, 4, 10), dtype=bool)
    arch[:4] = True
    arch[8:] = True
    arch[:, :, 6:] = True
    assert count_components(arch, LARGER_THAN_ALL[:2]) == Components(10, 4)
    assert count_components(arch, LARGER_THAN_ALL) == Components(1, 1)


def test_an_absent_region_has_no_components():
    assert count_components(EMPTY, LARGER_THAN_ALL[:2]) == Components(0, 0)
    assert count_components(EMPTY, LARGER_THAN_ALL) == Components(0, 0)


def test_in_3d_a_region_must_be_single_in_all_volumes():
    assert is_always_single([Components(1, 1)] * 3, dimensions=3)
    assert not is_always_single([Components(1, 1)] * 9 + [Components(1, 0)], dimensions=3)


def test_in_2d_a_region_must_be_single_in_nearly_all_slices():
    assert is_always_single([Components(50, 49)] * 3, dimensions=2)
    assert not is_always_single([Components(50, 48)] * 3, dimensions=2)


def test_three_subjects_must_have_the_region():
    assert not is_always_single([Components(1, 1)] * 2, dimensions=3)
    assert not is_always_single([Components(1, 1)] * 2 + [Components(0, 0)], dimensions=3)


def test_nesting_follows_from_the_label_values():
    whole = Region("whole", (1, 2), 1)
    core = Region("core", (2,), 2)
    other = Region("other", (3,), 3)
    assert nested_pairs([whole, core, other]) == [(1, 0)]
    assert nested_pairs([core, whole]) == [(0, 1)]
    assert nested_pairs([core, core]) == [], "a region is not nested in an equal one"


def labels_of_volumes(volumes, spacing=(1.0, 1.0, 1.0)):
    """One label per subject: a bar of so many voxels."""
    labels = []
    for number, volume in enumerate(volumes):
        values = np.zeros((50, 1, 1), dtype=np.uint8)
        values[:volume] = 1
        labels.append(Label(f"subject{number}", values, spacing, (0, 0, 0)))
    return labels


def test_the_error_of_the_mean_size_is_that_of_a_sample():
    """Volumes of 10, 20 and 30: the mean is 20, the standard deviation 10."""
    error = relative_error_of_mean_size(labels_of_volumes([10, 20, 30]), Region("a", (1,), 1))
    assert error == pytest.approx(10 / 20 / np.sqrt(3))


def test_further_labels_of_a_subject_do_not_reduce_the_error():
    labels = labels_of_volumes([10, 20, 30])
    labels[2] = labels[2]._replace(subject=labels[1].subject)
    error = relative_error_of_mean_size(labels, Region("a", (1,), 1))
    assert error == pytest.approx(10 / 20 / np.sqrt(2))


def test_the_size_of_a_region_that_no_label_has_is_unknown():
    assert relative_error_of_mean_size(labels_of_volumes([10, 20]), Region("b", (2,), 2)) == np.inf
