"""The predictor as a program uses it."""

import doctest

import nibabel
import numpy as np
import pytest
import torch
from reference import reference_volume

from segpl.data.cases import Case
from segpl.data.layouts import read_dataset
from segpl.data.preparation import load as load_case
from segpl.foundation.errors import UserError
from segpl.inference import predictor
from segpl.inference.predictor import load
from segpl.inference.result import prediction_of
from segpl.inference.temperature import tempered
from segpl.inference.windows import fold


@pytest.fixture(scope="module")
def together(tumours, tmp_path_factory):
    """Three slices of a case, all channels in one 4D file."""
    channels = [nibabel.load(file) for file in read_dataset(tumours).test[0].images]
    file = tmp_path_factory.mktemp("scan") / "scan.nii.gz"
    voxels = np.stack([np.asarray(channel.dataobj)[..., 4:7] for channel in channels], axis=-1)
    nibabel.save(nibabel.Nifti1Image(voxels, channels[0].affine), file)
    return file


def test_the_examples_in_the_docstrings(run_directory, tmp_path):
    names = {"run_directory": run_directory, "folder": tmp_path}
    assert doctest.testmod(predictor, extraglobs=names) == (0, 7)
    assert (tmp_path / "mask.nii.gz").is_file()


@pytest.mark.parametrize("samples", [1, 3])
def test_the_prediction_is_what_the_windows_of_the_whole_volume_say(
    samples, run_directory, together
):
    """Against the plain way: all samples of the whole volume in memory."""
    model = load(run_directory)
    x = load_case(Case("a", "a", (together,)), model.task, model.run.preparation).x
    with torch.no_grad():
        p = reference_volume(
            lambda window: model.run.method.predict(model.model, window, samples),
            x,
            model.run.patch,
        )
    found = model.predict(together, samples=samples)
    np.testing.assert_allclose(found.probability, p.mean(0), atol=1e-4)
    sure = ((p.mean(0) - 0.5).abs() > 1e-4).all(0).numpy()
    np.testing.assert_array_equal(found.mask[sure], fold(p.mean(0) > 0.5, model.task.regions)[sure])
    assert sure.mean() > 0.99
    assert (found.variance is None) == (samples == 1)


def test_uncertainty_is_the_entropy_of_the_mean_and_variance_that_of_the_samples(
    run_directory, together
):
    found = load(run_directory).predict(together, samples=5)
    p = found.probability.astype(np.float64)
    np.testing.assert_allclose(
        found.uncertainty, -p * np.log2(p) - (1 - p) * np.log2(1 - p), atol=1e-5
    )
    assert 0 < found.variance.max() <= 0.25


def test_a_sure_threshold_gives_the_same_mask_with_samples_and_without(save_run, together):
    """SegPL-VI whose posterior has no spread."""
    model = load(
        save_run(method={"name": "segpl-vi", "prior": {"name": "fixed", "threshold": 0.5}})
    )
    alone, several = model.predict(together), model.predict(together, samples=5)
    np.testing.assert_array_equal(alone.mask, several.mask)
    assert 0 < (alone.mask > 0).mean() < 1
    assert several.variance.max() < 1e-5


def test_members_of_an_ensemble_are_samples(save_run, together):
    members = {"name": "deep-ensemble", "members": 3}
    model = load(save_run(method=members))
    alone, several = model.predict(together), model.predict(together, samples=3)
    np.testing.assert_allclose(alone.probability, several.probability, atol=2e-5)
    assert several.variance.mean() > 1e-4


def test_temperature_moves_no_mask(run_directory, together):
    model = load(run_directory)
    plain, warm = model.predict(together), model.predict(together, temperature=3.0)
    np.testing.assert_array_equal(plain.mask, warm.mask)
    expected = tempered(torch.from_numpy(plain.probability), 3.0)
    np.testing.assert_allclose(warm.probability, expected, atol=1e-4)
    assert warm.numbers["whole tumour"].uncertainty > plain.numbers["whole tumour"].uncertainty


def test_temperature_acts_on_every_sample(save_run, together):
    """Of an ensemble with one window a slice, so that no blending comes between."""
    model = load(save_run(method={"name": "deep-ensemble", "members": 2}, patch=[64, 64]))
    x = load_case(Case("a", "a", (together,)), model.task, model.run.preparation).x
    with torch.no_grad():
        p = reference_volume(
            lambda window: model.run.method.predict(model.model, window, 2), x, model.run.patch
        )
    found = model.predict(together, samples=2, temperature=0.2)
    np.testing.assert_allclose(found.probability, tempered(p, 0.2).mean(0), atol=2e-5)
    np.testing.assert_allclose(found.variance, tempered(p, 0.2).var(0, correction=0), atol=2e-5)


def test_a_prediction_is_saved_in_the_values_of_the_training_data(
    run_directory, together, tmp_path
):
    found = load(run_directory).predict(together, samples=2)
    found.save(tmp_path / "mask.nii.gz")
    found.save_probability(tmp_path / "p.nii.gz")
    found.save_uncertainty(tmp_path / "u.nii.gz")
    found.save_variance(tmp_path / "v.nii.gz")
    assert set(np.unique(nibabel.load(tmp_path / "mask.nii.gz").dataobj)) <= {0, 1, 2, 3}
    for file, values in (("p", found.probability), ("u", found.uncertainty), ("v", found.variance)):
        image = nibabel.load(tmp_path / f"{file}.nii.gz")
        np.testing.assert_allclose(np.moveaxis(image.get_fdata(), -1, 0), values, atol=2e-5)
        np.testing.assert_array_equal(image.affine, nibabel.load(together).affine)


def test_volumes_count_nested_regions_whole(shifted, phantom):
    found = shifted.predict(phantom[0], spacing=(1, 1, 2), samples=1)
    assert found.volumes_ml == {"lesion": pytest.approx((found.mask == 5).sum() * 2 / 1000)}
    levels = np.stack([found.levels[0], found.levels[0] // 2])
    region = shifted.task.regions[0]
    nested = prediction_of(levels, (region, type(region)("core", (6,), 6)), found.frame)
    assert nested.numbers["lesion"].volume_ml == found.volumes_ml["lesion"]


@pytest.mark.parametrize(
    ("shape", "complaint"),
    [
        (
            (40, 40),
            r"the ndarray is a 2D image, but the run was trained on volumes: give scans like those",
        ),
        ((2, 40, 40, 8), r"the ndarray has 2 channels, but the task has 1 \(MR\): give as many"),
        (
            (2, 2, 2, 2, 2),
            r"the ndarray has an array of shape \(2, 2, 2, 2, 2\): save it as \[X, Y\]",
        ),
    ],
)
def test_arrays_that_do_not_fit(shape, complaint, shifted):
    with pytest.raises(UserError, match=complaint):
        shifted.predict(np.zeros(shape))


def test_a_slice_seen_from_the_side_does_not_fit_a_network_of_slices(run_directory):
    with pytest.raises(UserError, match="seen from the side"):
        load(run_directory).predict(np.zeros((4, 40, 1, 40)))


def test_a_folder_of_several_scans_is_not_one(run_directory, tumours):
    with pytest.raises(UserError, match=r"tumours holds 6 scans: give one\."):
        load(run_directory).predict(tumours)


@pytest.mark.parametrize("image", [[np.zeros((8, 8, 3))] * 2, None, 3.0])
def test_what_is_no_scan_is_one_sentence(image, run_directory):
    with pytest.raises(UserError, match=r"a \w+ is no scan: give one file, array"):
        load(run_directory).predict(image)
