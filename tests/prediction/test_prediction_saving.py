"""Masks and maps are written in the geometry of the scan, completely or not at all."""

import errno

import nibabel
import numpy as np
import pytest
import SimpleITK
from PIL import Image

from segpl.data.frames import Frame
from segpl.data.saving import NIFTI, same_format, save_itk, save_nifti, save_npy, save_picture
from segpl.foundation.errors import UserError

MASK = np.random.default_rng(0).integers(0, 4, (5, 6, 7)).astype(np.uint8)
OBLIQUE = np.array([[0.7, 0.1, 0, 5], [-0.1, 0.7, 0.0, -9], [0, 0, 2.5, 3], [0, 0, 0, 1]])
STRAIGHT = np.diag([0.7, -0.7, 2.5, 1])
SHEARED = STRAIGHT + np.eye(4)[:, [3, 3, 1, 3]] * [0, 0, 0.5, 0]


def nifti(image_class=nibabel.Nifti1Image, shape=(5, 6, 7), qform=0, sform=0):
    """An empty scan with a name in its header; qform and sform are the codes of its geometry."""
    image = image_class(np.zeros(shape, np.int16), None)
    image.set_qform(OBLIQUE, qform)
    image.set_sform(OBLIQUE, sform)
    image.header["descrip"] = b"Jane Doe"
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"Jane Doe"))
    return image


@pytest.mark.parametrize("image_class", [nibabel.Nifti1Image, nibabel.Nifti2Image])
@pytest.mark.parametrize(("qform", "sform"), [(1, 0), (0, 2), (1, 4), (3, 1), (0, 0)])
def test_forms_and_codes_of_a_nifti_scan_are_kept(image_class, qform, sform, tmp_path):
    nibabel.save(nifti(image_class, qform=qform, sform=sform), tmp_path / "scan.nii")
    scan = nibabel.load(tmp_path / "scan.nii")
    save_nifti(tmp_path / "mask.nii.gz", MASK, Frame(scan.shape, scan.affine, None, scan.header))
    mask = nibabel.load(tmp_path / "mask.nii.gz")
    assert isinstance(mask, image_class)
    np.testing.assert_array_equal(mask.affine, scan.affine)
    np.testing.assert_array_equal(mask.get_qform(), scan.get_qform())
    np.testing.assert_array_equal(mask.get_sform(), scan.get_sform())
    assert mask.header["qform_code"] == scan.header["qform_code"]
    assert mask.header["sform_code"] == scan.header["sform_code"]
    np.testing.assert_array_equal(np.asarray(mask.dataobj), MASK)
    assert mask.get_data_dtype() == np.uint8


def test_other_entries_of_the_header_are_not_copied(tmp_path):
    scan = nifti(sform=1)
    save_nifti(tmp_path / "mask.nii", MASK, Frame((5, 6, 7), scan.affine, None, scan.header))
    assert b"Jane Doe" not in (tmp_path / "mask.nii").read_bytes()
    assert scan.header.extensions, "the scan's own header is not changed"


def test_a_2D_scan_gets_a_2D_mask(tmp_path):
    scan = nifti(shape=(5, 6), sform=1)
    frame = Frame((5, 6, 1), scan.affine, None, scan.header)
    save_nifti(tmp_path / "mask.nii.gz", MASK[..., :1], frame)
    assert nibabel.load(tmp_path / "mask.nii.gz").shape == (5, 6)


@pytest.mark.parametrize(
    ("affine", "qform_code"), [(STRAIGHT, 1), (SHEARED, 0)], ids=["straight", "sheared"]
)
def test_a_scan_of_another_format_gets_both_forms_unless_it_is_sheared(
    affine, qform_code, tmp_path
):
    save_nifti(tmp_path / "mask.nii.gz", MASK, Frame(MASK.shape, affine, None))
    mask = nibabel.load(tmp_path / "mask.nii.gz")
    np.testing.assert_allclose(mask.affine, affine, atol=1e-6)
    assert int(mask.header["qform_code"]) == qform_code
    assert int(mask.header["sform_code"]) == 1
    assert mask.header.get_xyzt_units()[0] == "mm"


def test_maps_are_stored_as_integers_with_a_scale(tmp_path):
    levels = np.full((2, 3, 4, 2), 32768, np.uint16)
    frame = Frame((2, 3, 4), np.eye(4), None)
    save_nifti(tmp_path / "map.nii.gz", levels, frame, 1 / 65535)
    image = nibabel.load(tmp_path / "map.nii.gz")
    assert image.get_data_dtype() == np.uint16
    np.testing.assert_allclose(image.get_fdata(), 32768 / 65535, rtol=1e-6)


def test_the_same_mask_is_the_same_bytes(tmp_path, monkeypatch):
    frame = Frame(MASK.shape, OBLIQUE, None)
    save_nifti(tmp_path / "a.nii.gz", MASK, frame)
    monkeypatch.setattr("time.time", lambda: 1e9)
    save_nifti(tmp_path / "b.nii.gz", MASK, frame)
    assert (tmp_path / "a.nii.gz").read_bytes() == (tmp_path / "b.nii.gz").read_bytes()


@pytest.mark.parametrize("ending", ["mha", "nrrd"])
def test_itk_formats_keep_the_geometry(ending, tmp_path):
    affine = np.diag([-0.5, 0.5, 2.5, 1.0])
    affine[:3, 3] = 1, 2, 3
    save_itk(tmp_path / f"mask.{ending}", MASK, Frame(MASK.shape, affine, None))
    image = SimpleITK.ReadImage(str(tmp_path / f"mask.{ending}"))
    np.testing.assert_array_equal(SimpleITK.GetArrayFromImage(image).T, MASK)
    ras = affine @ [4, 5, 6, 1]
    lps = ras[:3] * (-1, -1, 1)
    np.testing.assert_allclose(image.TransformIndexToPhysicalPoint((4, 5, 6)), lps)


def test_a_picture_has_x_as_its_column(tmp_path):
    save_picture(tmp_path / "mask.png", MASK[..., :1], Frame((5, 6, 1), np.eye(4), None))
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "mask.png")), MASK[..., 0].T)


def test_a_picture_can_hold_values_above_255(tmp_path):
    mask = np.full((5, 6, 1), 300, np.uint16)
    save_picture(tmp_path / "mask.png", mask, Frame((5, 6, 1), np.eye(4), None))
    assert np.asarray(Image.open(tmp_path / "mask.png")).max() == 300


def test_an_array_is_saved_as_it_is(tmp_path):
    save_npy(tmp_path / "mask.npy", MASK, Frame(MASK.shape, np.eye(4), None))
    np.testing.assert_array_equal(np.load(tmp_path / "mask.npy"), MASK)


@pytest.mark.parametrize(
    ("scan", "slices", "ending"),
    [
        ("a.MHA", 9, ".mha"),
        ("a.mhd", 9, ".mha"),
        ("a.nhdr", 9, ".nrrd"),
        ("a.tif", 1, ".png"),
        ("a.tif", 9, ".nii.gz"),
        ("a.nii", 9, ".nii.gz"),
        ("a.h5", 9, ".nii.gz"),
        ("series", 9, ".nii.gz"),
    ],
)
def test_masks_take_the_format_of_the_scan_if_it_can_be_written(scan, slices, ending, tmp_path):
    assert same_format(tmp_path / scan, slices)[0] == ending


def test_a_scan_of_no_format_gets_nifti(tmp_path):
    assert same_format(tmp_path / "scan", 1) == NIFTI


def test_a_full_disk_leaves_neither_file_nor_draft(tmp_path, monkeypatch):
    def write_half(_, file):
        file.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(nibabel, "save", write_half)
    message = r"a\.nii\.gz cannot be written \(No space left on device\): make room"
    with pytest.raises(UserError, match=message):
        save_nifti(tmp_path / "a.nii.gz", MASK, Frame(MASK.shape, np.eye(4), None))
    assert list(tmp_path.iterdir()) == []


def test_a_failure_of_itk_leaves_neither_file_nor_draft(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("ITK")

    monkeypatch.setattr(SimpleITK, "WriteImage", fail)
    with pytest.raises(UserError, match=r"a\.mha cannot be written \(ITK failed\)"):
        save_itk(tmp_path / "a.mha", MASK, Frame(MASK.shape, np.eye(4), None))
    assert list(tmp_path.iterdir()) == []
