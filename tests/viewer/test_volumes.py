"""The files that the page shows: the scan as it is stored, converted, or at a lower resolution."""

import nibabel
import numpy as np
import pytest
from conftest import OBLIQUE, SHAPE, landmark, oblique_scan

from segpl.data.cases import Case, Region
from segpl.data.frames import Frame
from segpl.data.saving import save_itk
from segpl.foundation.files import write_nifti
from segpl.viewer import volumes
from segpl.viewer.volumes import Folders, Volumes, region_numbers


@pytest.fixture
def served(tmp_path):
    (tmp_path / "cache").mkdir()
    regions = (Region("organ", (1,), 1),)
    return Volumes(Folders.of([tmp_path]), tmp_path / "cache", regions)


def test_a_nifti_file_is_sent_as_it_is(served, tmp_path):
    file = tmp_path / "a.nii.gz"
    write_nifti(file, oblique_scan(0), OBLIQUE)
    assert served.channel(0, Case("a", "a", (file,)), 0) == file


def test_a_channel_of_a_4d_file_is_converted(served, tmp_path):
    channels = np.stack([oblique_scan(0), oblique_scan(1)], axis=-1)
    file = tmp_path / "a.nii.gz"
    write_nifti(file, channels, OBLIQUE)
    sent = nibabel.load(served.channel(0, Case("a", "a", (file,)), 1))
    assert np.array_equal(sent.dataobj, channels[..., 1])
    assert np.allclose(sent.affine, OBLIQUE, atol=1e-5)


def test_another_format_is_converted_in_its_geometry(served, tmp_path):
    file = tmp_path / "a.mha"
    save_itk(file, landmark().astype(np.uint8), Frame(SHAPE, OBLIQUE, None))
    case = Case("a", "a", (file,))
    sent = nibabel.load(served.channel(0, case, 0))
    assert np.array_equal(sent.dataobj, landmark())
    assert np.allclose(sent.affine, OBLIQUE, atol=1e-4)
    assert np.allclose(served.frame(case).affine, OBLIQUE, atol=1e-4)


def test_a_preview_has_fewer_voxels_at_the_same_places(served, tmp_path, monkeypatch):
    monkeypatch.setattr(volumes, "LARGE", 1000)
    monkeypatch.setattr(volumes, "PREVIEW", 1000)
    file = tmp_path / "a.nii.gz"
    scan = oblique_scan(0)
    write_nifti(file, scan, OBLIQUE)
    case = Case("a", "a", (file,))
    assert served.is_large(case)
    preview = nibabel.load(served.preview(0, case, 0))
    assert 100 < np.prod(preview.shape) <= 1000
    for voxel in ((0, 0, 0), (2, 3, 1)):
        world = preview.affine @ (*voxel, 1)
        original = np.rint(np.linalg.inv(OBLIQUE) @ world).astype(int)[:3]
        assert np.asarray(preview.dataobj)[voxel] == scan[tuple(original)]


def test_regions_of_a_label_are_numbered_in_painting_order():
    regions = (Region("organ", (1, 3), 1), Region("lesion", (3,), 3))
    values = np.array([0, 1, 3, -999]).reshape(1, 1, 4)
    assert region_numbers(values, regions).ravel().tolist() == [0, 1, 2, 0]
