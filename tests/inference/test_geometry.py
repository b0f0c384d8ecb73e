"""A mask lies on its scan, however the scan is stored."""

from dataclasses import replace
from pathlib import Path

import nibabel
import numpy as np
import pytest
import SimpleITK
from nibabel.orientations import axcodes2ornt
from series import write_series

from segpl.data.formats import Image
from segpl.data.frames import Frame
from segpl.data.itk import from_itk, to_itk
from segpl.settings.run import read_run


def turned(degrees):
    """A rotation about an oblique axis."""
    axis = np.array([1.0, 2.0, 3.0]) / np.sqrt(14.0)
    cross = np.cross(np.eye(3), axis)
    angle = np.deg2rad(degrees)
    affine = np.eye(4)
    affine[:3, :3] = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    return affine


def dice(first, second):
    return 2 * (first & second).sum() / (first.sum() + second.sum())


def stored(image, codes):
    """The same scan with its axes in another order or direction."""
    return image.as_reoriented(
        nibabel.orientations.ornt_transform(axcodes2ornt("RAS"), axcodes2ornt(codes))
    )


@pytest.fixture(scope="session")
def expected(shifted, canonical, phantom):
    mask = shifted.predict(canonical).mask == 5
    assert dice(mask, phantom[1]) > 0.97, "the stand-in network finds the phantom"
    return mask


@pytest.mark.parametrize("codes", ["RAS", "LPS", "LAS", "RAI", "PSR", "SLA", "ASL"])
@pytest.mark.parametrize("degrees", [0, 25])
def test_a_flipped_permuted_or_oblique_scan_gets_the_same_mask(
    codes, degrees, shifted, canonical, expected, tmp_path
):
    oblique = nibabel.Nifti1Image(np.asarray(canonical.dataobj), turned(degrees) @ canonical.affine)
    scan = stored(oblique, codes)
    nibabel.save(scan, tmp_path / "scan.nii.gz")
    shifted.predict(tmp_path / "scan.nii.gz").save(tmp_path / "mask.nii.gz")
    mask = nibabel.load(tmp_path / "mask.nii.gz")
    assert mask.shape == scan.shape
    np.testing.assert_array_equal(mask.affine, nibabel.load(tmp_path / "scan.nii.gz").affine)
    as_found = stored(nibabel.Nifti1Image(expected.astype(np.uint8), oblique.affine), codes)
    np.testing.assert_array_equal(np.asarray(mask.dataobj) == 5, np.asarray(as_found.dataobj) == 1)


def test_without_an_orientation_the_same_network_would_look_on_the_wrong_side(
    shifted, canonical, phantom
):
    """What the tests above are worth: the stand-in network tells left from right."""
    scan = stored(canonical, "LPS")
    blind = replace(shifted, run=replace(shifted.run, orientation=None))
    truth = np.flip(phantom[1], (0, 1))
    assert dice(blind.predict(scan).mask == 5, truth) < 0.7
    assert dice(shifted.predict(scan).mask == 5, truth) > 0.97


@pytest.mark.parametrize("factors", [(2, 2, 1), (1, 1, 2), (2, 1, 2)])
def test_another_spacing_costs_less_than_a_hundredth_of_dice(
    factors, shifted, canonical, phantom, expected
):
    """The phantom on a finer, anisotropic, oblique and flipped grid, against its truth on that grid."""
    affine = turned(20) @ canonical.affine @ np.diag([*(1 / np.array(factors)), 1])
    finer = [np.kron(values, np.ones(factors, np.int16)) for values in phantom]
    scan, truth = (stored(nibabel.Nifti1Image(values, affine), "PLI") for values in finer)
    found = dice(shifted.predict(scan).mask == 5, np.asarray(truth.dataobj) == 1)
    assert found == pytest.approx(dice(expected, phantom[1]), abs=0.01)


@pytest.mark.parametrize("degrees", [0, 25])
def test_the_same_scan_gets_the_same_mask_in_every_format(
    degrees, shifted, canonical, expected, tmp_path
):
    oblique = stored(
        nibabel.Nifti1Image(np.asarray(canonical.dataobj), turned(degrees) @ canonical.affine),
        "LPS",
    )
    nibabel.save(oblique, tmp_path / "a.nii.gz")
    values = np.asarray(oblique.dataobj)
    image = to_itk((values - values.min()).astype(np.uint16), oblique.affine) + int(values.min())
    image = SimpleITK.Cast(image, SimpleITK.sitkInt16)
    for ending in ("mha", "nrrd"):
        SimpleITK.WriteImage(image, str(tmp_path / f"a.{ending}"))
    series = write_series(tmp_path / "series", image)
    for scan in (
        oblique,
        image,
        *(tmp_path / f"a.{ending}" for ending in ("nii.gz", "mha", "nrrd")),
        series,
    ):
        found = shifted.predict(scan)
        np.testing.assert_array_equal(found.mask == 5, np.flip(expected, (0, 1)))
        np.testing.assert_allclose(found.affine, oblique.affine, atol=1e-4)


def test_an_array_lies_as_the_training_images_do(shifted, phantom, expected, tmp_path):
    found = shifted.predict(phantom[0], spacing=(1, 1, 2))
    np.testing.assert_array_equal(found.mask == 5, expected)
    assert found.volumes_ml["lesion"] == pytest.approx(expected.sum() * 2 / 1000)
    np.save(tmp_path / "a.npy", phantom[0])
    assert shifted.predict(tmp_path / "a.npy").mask.shape == phantom[0].shape
    found = shifted.predict(phantom[0][None].astype(">f4"), spacing=(1, 1, 2))
    np.testing.assert_array_equal(found.mask == 5, expected)


def test_images_of_simpleitk_say_where_they_lie():
    image = SimpleITK.GetImageFromArray(np.arange(24, dtype=np.int16).reshape(2, 3, 4))
    image.SetSpacing((0.5, 2, 3))
    image.SetOrigin((1, 2, 3))
    image.SetDirection((0, 1, 0, 1, 0, 0, 0, 0, -1))
    values, affine = from_itk(image)
    assert values.shape == (1, 4, 3, 2)
    for index in ((0, 0, 0), (3, 1, 1)):
        point = np.array(image.TransformIndexToPhysicalPoint(index)) * (-1, -1, 1)
        np.testing.assert_allclose(affine @ [*index, 1], [*point, 1])
        assert values[(0, *index)] == image[index]
    again = to_itk(values[0].astype(np.uint8), affine)
    assert again.GetDirection() == image.GetDirection()
    assert again.GetOrigin() == image.GetOrigin()


def test_channels_of_simpleitk_are_the_components_of_a_voxel():
    colours = np.random.default_rng(0).integers(0, 255, (3, 4, 3)).astype(np.uint8)
    values, affine = from_itk(SimpleITK.GetImageFromArray(colours, isVector=True))
    assert values.shape == (3, 4, 3, 1)
    np.testing.assert_array_equal(values[2, :, :, 0], colours[..., 2].T)
    assert affine[3].tolist() == [0, 0, 0, 1]


def test_what_a_frame_turns_it_turns_back():
    image = read_image_of(np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5))
    for codes in ("RAS", "LPI", "SAL", None):
        frame = Frame(image.values.shape[1:], image.affine, codes)
        turned_image = frame.reoriented(image)
        if codes:
            assert "".join(nibabel.aff2axcodes(turned_image.affine)) == codes
        np.testing.assert_array_equal(frame.restored(turned_image.values), image.values)
        assert frame.reoriented_shape == turned_image.values.shape[1:]


def read_image_of(values):
    affine = turned(25) @ np.diag([1, -2, 3, 1.0])
    return Image(Path("scan"), values, affine)


def test_a_scan_that_says_nothing_of_its_place_is_not_turned():
    image = Image(Path("scan"), np.arange(24).reshape(1, 2, 3, 4), np.eye(4))
    np.testing.assert_array_equal(
        Frame((2, 3, 4), np.eye(4), "LPS").reoriented(image).values, image.values
    )


def test_the_orientation_is_that_of_the_training_images(run_directory):
    assert read_run(run_directory).orientation == "RAS"
