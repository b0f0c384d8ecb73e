"""What labels tell about objects, worked out by hand."""

import numpy as np
import pytest
import torch

from segpl.data.cases import Case, Region
from segpl.foundation.files import write_nifti
from segpl.settings.objects import (
    Components,
    bounding_box,
    components,
    extent,
    is_single,
    nested,
    read_label,
    single_component,
    survival,
)

WHOLE = (1000, 1000, 1000)


def block(shape, *sides):
    mask = torch.zeros(1, *shape, dtype=torch.bool)
    mask[(0, *(slice(*side) for side in sides))] = True
    return mask


def test_nothing_is_lost_on_the_own_grid_and_little_of_a_block_that_fits_a_coarser_one():
    mask = block((64, 64, 64), (24, 40), (24, 40), (24, 40))
    assert survival(mask, (1, 1, 1), (1, 1, 1)).tolist() == [1]
    assert survival(mask, (1, 1, 1), (2, 2, 2)).item() > 0.9


def test_a_sheet_thinner_than_half_a_coarse_voxel_is_lost():
    sheet = block((48, 16, 16), (24, 25), (0, 16), (0, 16))
    assert survival(sheet, (1, 1, 1), (4, 1, 1)).item() == 0


def test_the_coarse_grid_begins_at_the_corner_of_the_image():
    """4 mm on coarse voxels of 4 mm: one is full, or two are half full and nothing exceeds 1/2."""
    aligned = block((64, 8, 8), (28, 32), (0, 8), (0, 8))
    assert survival(aligned, (1, 1, 1), (4, 1, 1)).item() == 1
    astride = block((64, 8, 8), (30, 34), (0, 8), (0, 8))
    assert survival(astride, (1, 1, 1), (4, 1, 1)).item() == 0
    assert survival(aligned, (1, 1, 1), (4, 1, 1), corner=(2, 0, 0)).item() == 0
    assert survival(astride, (1, 1, 1), (4, 1, 1), corner=(2, 0, 0)).item() == 1


def test_regions_are_taken_one_by_one_and_an_absent_one_is_nan():
    mask = torch.cat([block((40, 40, 8), (10, 30), (10, 30), (0, 8)), block((40, 40, 8), (0, 0))])
    kept = survival(mask, (1, 1, 1), (2, 2, 1))
    assert kept[0] > 0.95
    assert kept[1].isnan()


def test_the_rest_of_a_large_volume_does_not_matter():
    small = block((40, 40, 40), (16, 24), (16, 24), (16, 24))
    large = block((160, 160, 160), (76, 84), (76, 84), (76, 84))
    assert survival(small, (1, 1, 1), (2, 2, 2)) == pytest.approx(
        survival(large, (1, 1, 1), (2, 2, 2)), abs=0.01
    )


def test_of_a_huge_region_the_middle_makes_the_trip(monkeypatch):
    monkeypatch.setattr("segpl.settings.objects.LARGEST", 40 * 40 * 10)
    mask = block((40, 40, 60), (0, 40), (0, 40), (0, 5))
    mask[0, 10:30, 10:30, 40:] = True
    assert survival(mask, (1, 1, 1), (1, 1, 1)).item() == 1
    assert survival(mask, (1, 1, 1), (2, 2, 1)).item() > 0.9


def test_boxes_and_extents():
    mask = block((20, 30, 10), (5, 10), (2, 20), (9, 10))[0].numpy()
    assert bounding_box(mask) == (slice(5, 10), slice(2, 20), slice(9, 10))
    assert bounding_box(mask, (1, 5, 2))[:2] == (slice(4, 11), slice(0, 25))
    assert extent(mask, (1, 0.5, 3)) == (5, 9, 3)
    assert extent(np.zeros((4, 4, 4), dtype=bool), (1, 1, 1)) is None


def test_a_label_is_cropped_to_its_foreground_with_a_margin(tmp_path):
    values = np.zeros((50, 50, 20), dtype=np.uint8)
    values[20:30, 20:30, 5:10] = 2
    write_nifti(tmp_path / "a.nii.gz", values, np.diag([1.0, 1, 2, 1]))
    label = read_label(Case("a", "anna", (), tmp_path / "a.nii.gz"), margin=4)
    assert label.values.shape == (18, 18, 9)
    assert label.spacing == (1, 1, 2)
    assert label.extent() == (10, 10, 10)
    assert label.corner == (16, 16, 3)
    assert label.mask(Region("thing", (2,), 2)).sum() == 500
    assert label.mask(Region("other", (1,), 1)).sum() == 0
    write_nifti(tmp_path / "b.nii.gz", 0 * values, np.eye(4))
    assert read_label(Case("b", "anna", (), tmp_path / "b.nii.gz"), margin=4) is None


def test_corners_connect_and_specks_do_not_count():
    mask = np.zeros((10, 10), dtype=bool)
    mask[:5, :5] = mask[5:, 5:] = True
    assert is_single(mask, WHOLE[:2])
    mask[5, 5] = False
    assert not is_single(mask, WHOLE[:2])
    speck = np.zeros((10, 10), dtype=bool)
    speck[:4, :5] = True
    speck[9, 9] = True
    assert is_single(speck, WHOLE[:2]), "1 of 21 is less than a twentieth"
    speck[9, 7] = True
    assert not is_single(speck, WHOLE[:2])


def test_a_region_must_be_single_in_each_patch():
    """Two long bars with one bridge: whole, they are one component; a patch without the bridge has two."""
    bars = np.zeros((40, 10), dtype=bool)
    bars[:, 0:3] = bars[:, 7:] = True
    bars[0] = True
    assert is_single(bars, (40, 10))
    assert not is_single(bars, (10, 10))


def test_slices_are_counted_one_by_one_and_volumes_as_a_whole():
    """An arch: two legs in the lower slices, one piece above."""
    arch = torch.zeros(2, 12, 4, 10, dtype=torch.bool)
    arch[0, :4] = arch[0, 8:] = True
    arch[0, :, :, 6:] = True
    assert components(arch, True, WHOLE[:2]) == [Components(10, 4), Components(0, 0)]
    assert components(arch, False, WHOLE) == [Components(1, 1), Components(0, 0)]


def test_all_volumes_or_nearly_all_slices_of_enough_subjects_decide():
    assert single_component([Components(1, 1)] * 3, flat=False)
    assert not single_component([Components(1, 1)] * 2, flat=False)
    assert not single_component([Components(1, 1)] * 2 + [Components(0, 0)], flat=False)
    assert not single_component([Components(1, 1)] * 9 + [Components(1, 0)], flat=False)
    assert single_component([Components(50, 49)] * 3, flat=True)
    assert not single_component([Components(50, 48)] * 3, flat=True)


def test_nesting_is_read_off_the_label_values():
    whole, core, other = (
        Region("whole", (1, 2), 1),
        Region("core", (2,), 2),
        Region("other", (3,), 3),
    )
    assert nested([whole, core, other]) == [(1, 0)]
    assert nested([core, whole]) == [(0, 1)]
    assert nested([core, core]) == [], "the same is not a part"
