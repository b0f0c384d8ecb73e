"""A mask has the geometry of its scan, however the scan is stored."""

from dataclasses import replace
from pathlib import Path

import nibabel
import numpy as np
import pytest
import SimpleITK
from nibabel.orientations import axcodes2ornt, ornt_transform
from series import write_series

from segpl.data.formats import Image
from segpl.data.frames import Frame
from segpl.data.itk import from_itk, to_itk
from segpl.settings.run import read_run


def rotation(degrees):
    """The affine of a rotation about an oblique axis."""
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
    transform = ornt_transform(axcodes2ornt("RAS"), axcodes2ornt(codes))
    return image.as_reoriented(transform)


def rotated(image, degrees):
    return nibabel.Nifti1Image(np.asarray(image.dataobj), rotation(degrees) @ image.affine)


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
    oblique = rotated(canonical, degrees)
    scan = stored(oblique, codes)
    nibabel.save(scan, tmp_path / "scan.nii.gz")
    shifted.predict(tmp_path / "scan.nii.gz").save(tmp_path / "mask.nii.gz")
    mask = nibabel.load(tmp_path / "mask.nii.gz")
    assert mask.shape == scan.shape
    np.testing.assert_array_equal(mask.affine, nibabel.load(tmp_path / "scan.nii.gz").affine)
    expected_image = nibabel.Nifti1Image(expected.astype(np.uint8), oblique.affine)
    expected_mask = np.asarray(stored(expected_image, codes).dataobj)
    np.testing.assert_array_equal(np.asarray(mask.dataobj) == 5, expected_mask == 1)


def test_the_stand_in_network_needs_its_orientation(shifted, canonical, phantom):
    """Otherwise the tests above would test nothing: it tells left from right."""
    scan = stored(canonical, "LPS")
    without_orientation = replace(shifted, run=replace(shifted.run, orientation=None))
    truth = np.flip(phantom[1], (0, 1))
    assert dice(without_orientation.predict(scan).mask == 5, truth) < 0.7
    assert dice(shifted.predict(scan).mask == 5, truth) > 0.97


@pytest.mark.parametrize("factors", [(2, 2, 1), (1, 1, 2), (2, 1, 2)])
def test_another_spacing_costs_less_than_a_hundredth_of_dice(
    factors, shifted, canonical, phantom, expected
):
    """The phantom on a finer, anisotropic, oblique and flipped grid, with its truth there."""
    finer_voxels = np.diag([*(1 / np.array(factors)), 1])
    affine = rotation(20) @ canonical.affine @ finer_voxels

    def on_finer_grid(values):
        repeated = np.kron(values, np.ones(factors, np.int16))
        return stored(nibabel.Nifti1Image(repeated, affine), "PLI")

    image, truth = phantom
    mask = shifted.predict(on_finer_grid(image)).mask == 5
    found = dice(mask, np.asarray(on_finer_grid(truth).dataobj) == 1)
    assert found == pytest.approx(dice(expected, truth), abs=0.01)


@pytest.mark.parametrize("degrees", [0, 25])
def test_the_same_scan_gets_the_same_mask_in_every_format(
    degrees, shifted, canonical, expected, tmp_path
):
    oblique = stored(rotated(canonical, degrees), "LPS")
    itk_image = itk_image_of(oblique)
    nibabel.save(oblique, tmp_path / "a.nii.gz")
    SimpleITK.WriteImage(itk_image, str(tmp_path / "a.mha"))
    SimpleITK.WriteImage(itk_image, str(tmp_path / "a.nrrd"))
    series = write_series(tmp_path / "series", itk_image)
    files = [tmp_path / "a.nii.gz", tmp_path / "a.mha", tmp_path / "a.nrrd"]
    for scan in (oblique, itk_image, *files, series):
        prediction = shifted.predict(scan)
        np.testing.assert_array_equal(prediction.mask == 5, np.flip(expected, (0, 1)))
        np.testing.assert_allclose(prediction.affine, oblique.affine, atol=1e-4)


def itk_image_of(image):
    """The same scan as a SimpleITK image of signed integers, which `to_itk` does not make."""
    values = np.asarray(image.dataobj)
    lowest = int(values.min())
    unsigned = (values - lowest).astype(np.uint16)
    return SimpleITK.Cast(to_itk(unsigned, image.affine) + lowest, SimpleITK.sitkInt16)


def test_an_array_has_the_orientation_of_the_training_images(shifted, phantom, expected):
    prediction = shifted.predict(phantom[0], spacing=(1, 1, 2))
    np.testing.assert_array_equal(prediction.mask == 5, expected)
    assert prediction.volumes_ml["lesion"] == pytest.approx(expected.sum() * 2 / 1000)


def test_an_array_may_have_channels_and_another_byte_order(shifted, phantom, expected):
    prediction = shifted.predict(phantom[0][None].astype(">f4"), spacing=(1, 1, 2))
    np.testing.assert_array_equal(prediction.mask == 5, expected)


def test_an_array_may_be_a_file_if_the_training_images_were(shifted, phantom, tmp_path):
    """Training images without an orientation come from files that store no spacing either."""
    np.save(tmp_path / "a.npy", phantom[0])
    run = replace(shifted.run, orientation=None)
    predictor = replace(shifted, run=run)
    assert predictor.predict(tmp_path / "a.npy").mask.shape == phantom[0].shape


def test_images_of_simpleitk_keep_their_geometry():
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


def test_a_frame_restores_what_it_reorients():
    affine = rotation(25) @ np.diag([1, -2, 3, 1.0])
    image = Image(Path("scan"), np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5), affine)
    for codes in ("RAS", "LPI", "SAL", None):
        frame = Frame(image.values.shape[1:], image.affine, codes)
        reoriented = frame.reoriented(image)
        if codes:
            assert "".join(nibabel.aff2axcodes(reoriented.affine)) == codes
        np.testing.assert_array_equal(frame.restored(reoriented.values), image.values)
        assert frame.reoriented_shape == reoriented.values.shape[1:]


@pytest.mark.parametrize("codes", ["RAS", "SAL", None])
def test_a_frame_crops_around_the_centre_and_restores_the_whole_grid(codes):
    affine = rotation(25) @ np.diag([1, -2, 3, 1.0])
    values = 1 + np.arange(2 * 8 * 9 * 10).reshape(2, 8, 9, 10)
    image = Image(Path("scan"), values, affine)
    whole = Frame(values.shape[1:], affine, codes).reoriented(image)
    frame = Frame(values.shape[1:], affine, codes, centre_crop=(4, 100))
    cropped = frame.reoriented(image)
    start = (whole.values.shape[1] - 4) // 2
    np.testing.assert_array_equal(cropped.values, whole.values[:, start : start + 4])
    assert frame.reoriented_shape == cropped.values.shape[1:]
    first_voxel = whole.affine @ [start, 0, 0, 1]
    np.testing.assert_allclose(cropped.affine @ [0, 0, 0, 1], first_voxel)
    restored = frame.restored(cropped.values)
    inside = np.isin(values, cropped.values)
    np.testing.assert_array_equal(restored, np.where(inside, values, 0))


def test_a_scan_without_an_affine_is_not_reoriented():
    image = Image(Path("scan"), np.arange(24).reshape(1, 2, 3, 4), np.eye(4))
    np.testing.assert_array_equal(
        Frame((2, 3, 4), np.eye(4), "LPS").reoriented(image).values, image.values
    )


def test_the_orientation_is_that_of_the_training_images(run_directory):
    assert read_run(run_directory).orientation == "RAS"
