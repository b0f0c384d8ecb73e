"""Files in the geometry of the scan, whole or not there at all."""

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


def nifti(kind=nibabel.Nifti1Image, shape=(5, 6, 7), qform=0, sform=0):
    image = kind(np.zeros(shape, np.int16), None)
    image.set_qform(OBLIQUE, qform)
    image.set_sform(OBLIQUE, sform)
    image.header["descrip"] = b"Jane Doe"
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"Jane Doe"))
    return image


@pytest.mark.parametrize("kind", [nibabel.Nifti1Image, nibabel.Nifti2Image])
@pytest.mark.parametrize(("qform", "sform"), [(1, 0), (0, 2), (1, 4), (3, 1), (0, 0)])
def test_forms_and_codes_of_a_nifti_scan_are_kept(kind, qform, sform, tmp_path):
    nibabel.save(nifti(kind, qform=qform, sform=sform), tmp_path / "scan.nii")
    scan = nibabel.load(tmp_path / "scan.nii")
    save_nifti(tmp_path / "mask.nii.gz", MASK, Frame(scan.shape, scan.affine, None, scan.header))
    mask = nibabel.load(tmp_path / "mask.nii.gz")
    assert isinstance(mask, kind)
    np.testing.assert_array_equal(mask.affine, scan.affine)
    for form in ("qform", "sform"):
        assert mask.header[f"{form}_code"] == scan.header[f"{form}_code"]
        np.testing.assert_array_equal(
            getattr(mask, f"get_{form}")(), getattr(scan, f"get_{form}")()
        )
    np.testing.assert_array_equal(np.asarray(mask.dataobj), MASK)
    assert mask.get_data_dtype() == np.uint8


def test_what_else_a_header_says_belongs_to_the_scan(tmp_path):
    scan = nifti(sform=1)
    save_nifti(tmp_path / "mask.nii", MASK, Frame((5, 6, 7), scan.affine, None, scan.header))
    assert b"Jane Doe" not in (tmp_path / "mask.nii").read_bytes()
    assert scan.header.extensions, "the scan's own header is left alone"


def test_a_2D_scan_gets_a_2D_mask(tmp_path):
    scan = nifti(shape=(5, 6), sform=1)
    save_nifti(
        tmp_path / "mask.nii.gz", MASK[..., :1], Frame((5, 6, 1), scan.affine, None, scan.header)
    )
    assert nibabel.load(tmp_path / "mask.nii.gz").shape == (5, 6)


def test_a_scan_of_another_format_gets_both_forms_unless_it_is_sheared(tmp_path):
    straight = np.diag([0.7, -0.7, 2.5, 1])
    sheared = straight + np.eye(4)[:, [3, 3, 1, 3]] * [0, 0, 0.5, 0]
    for affine, codes in ((straight, (1, 1)), (sheared, (0, 1))):
        save_nifti(tmp_path / "mask.nii.gz", MASK, Frame(MASK.shape, affine, None))
        mask = nibabel.load(tmp_path / "mask.nii.gz")
        np.testing.assert_allclose(mask.affine, affine, atol=1e-6)
        assert (int(mask.header["qform_code"]), int(mask.header["sform_code"])) == codes
        assert mask.header.get_xyzt_units()[0] == "mm"


def test_maps_count_in_steps(tmp_path):
    save_nifti(
        tmp_path / "map.nii.gz",
        np.full((2, 3, 4, 2), 32768, np.uint16),
        Frame((2, 3, 4), np.eye(4), None),
        1 / 65535,
    )
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
def test_itk_formats_keep_the_place(ending, tmp_path):
    turn = np.diag([-0.5, 0.5, 2.5, 1.0])
    turn[:3, 3] = 1, 2, 3
    save_itk(tmp_path / f"mask.{ending}", MASK, Frame(MASK.shape, turn, None))
    image = SimpleITK.ReadImage(str(tmp_path / f"mask.{ending}"))
    np.testing.assert_array_equal(SimpleITK.GetArrayFromImage(image).T, MASK)
    point = turn @ [4, 5, 6, 1]
    np.testing.assert_allclose(
        image.TransformIndexToPhysicalPoint((4, 5, 6)), point[:3] * (-1, -1, 1)
    )


def test_pictures_and_arrays(tmp_path):
    save_picture(tmp_path / "mask.png", MASK[..., :1], Frame((5, 6, 1), np.eye(4), None))
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "mask.png")), MASK[..., 0].T)
    save_picture(
        tmp_path / "mask.png", np.full((5, 6, 1), 300, np.uint16), Frame((5, 6, 1), np.eye(4), None)
    )
    assert np.asarray(Image.open(tmp_path / "mask.png")).max() == 300
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
def test_masks_take_the_format_of_the_scan_where_it_can_be_written(scan, slices, ending, tmp_path):
    assert same_format(tmp_path / scan, slices)[0] == ending


def test_a_scan_of_no_format_gets_nifti(tmp_path):
    assert same_format(tmp_path / "scan", 1) == NIFTI


def test_what_fails_leaves_neither_file_nor_draft(tmp_path, monkeypatch):
    frame = Frame(MASK.shape, np.eye(4), None)

    def fill(_, place):
        place.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    def fail(*_, **__):
        raise RuntimeError("ITK")

    monkeypatch.setattr(nibabel, "save", fill)
    monkeypatch.setattr(SimpleITK, "WriteImage", fail)
    with pytest.raises(
        UserError, match=r"a\.nii\.gz cannot be written \(No space left on device\): make room"
    ):
        save_nifti(tmp_path / "a.nii.gz", MASK, frame)
    with pytest.raises(UserError, match=r"a\.mha cannot be written \(ITK failed\)"):
        save_itk(tmp_path / "a.mha", MASK, frame)
    assert list(tmp_path.iterdir()) == []
