"""The predictor as a program uses it."""

import doctest
from dataclasses import replace

import nibabel
import numpy as np
import pytest
import torch
from reference import reference_volume
from untrained import untrained

from segpl.data.cases import Case, Region, Task
from segpl.data.layouts import read_dataset
from segpl.data.preparation import load as load_case
from segpl.foundation.errors import UserError
from segpl.inference import predictor
from segpl.inference.label_map import merge_regions
from segpl.inference.maps import ScanMaps
from segpl.inference.predictor import Predictor, load
from segpl.inference.result import prediction_of
from segpl.inference.temperature import apply_temperature
from segpl.methods.segpl import SegPL


@pytest.fixture(scope="module")
def together(tumours, tmp_path_factory):
    """Three slices of a case, all channels in one 4D file."""
    channels = [nibabel.load(file) for file in read_dataset(tumours).test[0].images]
    file = tmp_path_factory.mktemp("scan") / "scan.nii.gz"
    slices = [np.asarray(channel.dataobj)[..., 4:7] for channel in channels]
    voxels = np.stack(slices, axis=-1)
    nibabel.save(nibabel.Nifti1Image(voxels, channels[0].affine), file)
    return file


def reference(model, file, samples):
    """The probability and all samples of the whole volume in memory, the plain way."""
    x = load_case(Case("a", "a", (file,)), model.task, model.run.preparation).x

    def predict(window):
        p, drawn = model.run.method.predict(model.model, window, samples)
        return torch.cat([p[None], drawn])

    with torch.no_grad():
        p_and_samples = reference_volume(predict, x, model.run.patch)
    return p_and_samples[0], p_and_samples[1:]


def test_the_examples_in_the_docstrings(run_directory, tmp_path):
    names = {"run_directory": run_directory, "folder": tmp_path}
    assert doctest.testmod(predictor, extraglobs=names) == (0, 7)
    assert (tmp_path / "mask.nii.gz").is_file()


def test_a_centre_crop_is_segmented_as_a_scan_of_its_own_and_nothing_outside(
    run_directory, together, tmp_path
):
    model = load(run_directory)
    settings = replace(model.run, centre_crop=(24, 20), orientation=None, spacing=None)
    image = nibabel.load(together)
    width, height = image.shape[:2]
    x = (width - 24) // 2
    y = (height - 20) // 2
    middle = (slice(x, x + 24), slice(y, y + 20))
    cropped_file = tmp_path / "cropped.nii.gz"
    nibabel.save(image.slicer[middle], cropped_file)
    whole = replace(model, run=settings).predict(together).probability
    alone = replace(model, run=settings).predict(cropped_file).probability
    np.testing.assert_array_equal(whole[(slice(None), *middle)], alone)
    assert alone.any()
    outside = np.ones(whole.shape[1:], dtype=bool)
    outside[middle] = False
    assert not whole[:, outside].any()


@pytest.mark.parametrize("samples", [1, 3])
def test_a_prediction_agrees_with_the_plain_way(samples, run_directory, together):
    model = load(run_directory)
    p, drawn = reference(model, together, samples)
    mean = drawn.mean(0)
    prediction = model.predict(together, samples=samples)
    np.testing.assert_allclose(prediction.probability, p, atol=1e-4)
    is_clear = ((mean - 0.5).abs() > 1e-4).all(0).numpy()
    assert is_clear.mean() > 0.99
    expected_mask = merge_regions(mean > 0.5, model.task.regions)
    np.testing.assert_array_equal(prediction.mask[is_clear], expected_mask[is_clear])
    assert (prediction.variance is None) == (samples == 1)


def test_uncertainty_is_the_entropy_of_the_probability(run_directory, together):
    prediction = load(run_directory).predict(together, samples=5)
    p = prediction.probability.astype(np.float64)
    entropy = -p * np.log2(p) - (1 - p) * np.log2(1 - p)
    np.testing.assert_allclose(prediction.uncertainty, entropy, atol=1e-5)


def test_samples_have_a_variance_of_at_most_a_quarter(run_directory, together):
    prediction = load(run_directory).predict(together, samples=5)
    assert 0 < prediction.variance.max() <= 0.25


def test_samples_of_a_fixed_threshold_are_the_same(save_run, together):
    """SegPL-VI whose posterior has no spread."""
    prior = {"name": "fixed", "threshold": 0.5}
    model = load(save_run(method={"name": "segpl-vi", "prior": prior}))
    single = model.predict(together)
    several = model.predict(together, samples=5)
    assert 0 < (single.mask > 0).mean() < 1
    np.testing.assert_array_equal(single.mask, several.mask)
    assert several.variance.max() < 1e-5


def test_members_of_an_ensemble_are_samples(save_run, together):
    model = load(save_run(method={"name": "deep-ensemble", "members": 3}))
    single = model.predict(together)
    several = model.predict(together, samples=3)
    np.testing.assert_allclose(single.probability, several.probability, atol=2e-5)
    assert several.variance.mean() > 1e-4


def constant_predictor(prior, p):
    """SegPL-VI whose theta gives every voxel the probability p."""
    run = untrained({"name": "segpl-vi", "prior": prior})
    task = Task(("MR",), (Region("lesion", (1,), 1),))
    model = run.build(task).eval().requires_grad_(False)
    last_layer = model["theta"].head.block.conv.conv
    last_layer.weight.zero_()
    last_layer.bias.fill_(torch.tensor(p).logit())
    return Predictor(run, task, model, torch.device("cpu"))


NOISE = np.random.default_rng(0).normal(size=(40, 40, 2))


@pytest.mark.parametrize("samples", [1, 5])
def test_a_probability_of_nine_tenths_is_reported_as_such_under_a_uniform_threshold(samples):
    """Thresholds of 0.1, 0.3, 0.5, 0.7 and 0.9 shift it to 0.988, 0.955, 0.9, 0.794 and 0.5."""
    model = constant_predictor({"name": "uniform"}, 0.9)
    prediction = model.predict(NOISE, spacing=(1, 1, 1), samples=samples)
    np.testing.assert_allclose(prediction.probability, 0.9, atol=1e-5)
    np.testing.assert_allclose(prediction.uncertainty, 0.469, atol=1e-3)
    assert prediction.numbers["lesion"].expected_dice == pytest.approx(1.8 / 1.9, abs=1e-4)
    if samples == 5:
        shifted = [81 / 82, 21 / 22, 0.9, 27 / 34, 0.5]
        np.testing.assert_allclose(prediction.variance, np.var(shifted), atol=1e-5)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("samples", [1, 5])
@pytest.mark.parametrize(("p", "is_inside"), [(0.45, True), (0.35, False)])
def test_a_threshold_moves_the_mask_and_not_the_probability(p, is_inside, samples, temperature):
    prior = {"name": "normal", "mean": 0.4, "deviation": 0.05}
    model = constant_predictor(prior, p)
    prediction = model.predict(NOISE, spacing=(1, 1, 1), samples=samples, temperature=temperature)
    assert (prediction.mask == is_inside).all()
    tempered = apply_temperature(torch.tensor(p), temperature)
    np.testing.assert_allclose(prediction.probability, tempered, atol=1e-5)
    volume = NOISE.size / 1000 if is_inside else 0.0
    assert prediction.volumes_ml == {"lesion": pytest.approx(volume)}


def test_an_ensemble_reports_the_mean_probability_of_members_with_thresholds(save_run, together):
    base = {"name": "segpl-vi", "prior": {"name": "normal", "mean": 0.4}}
    model = load(save_run(method={"name": "deep-ensemble", "base": base, "members": 2}))
    members = []
    for member in model.model:
        run = replace(model.run, method=SegPL())
        alone = Predictor(run, model.task, member["theta"], model.device)
        members.append(alone.predict(together).probability)
    expected = np.mean(members, axis=0)
    for samples in (1, 4):
        probability = model.predict(together, samples=samples).probability
        np.testing.assert_allclose(probability, expected, atol=2e-5)


@pytest.mark.parametrize("samples", [1, 5])
def test_temperature_moves_no_mask(samples, run_directory, together):
    model = load(run_directory)
    plain = model.predict(together, samples=samples)
    warm = model.predict(together, samples=samples, temperature=3.0)
    np.testing.assert_array_equal(plain.mask, warm.mask)
    expected = apply_temperature(torch.from_numpy(plain.probability), 3.0)
    np.testing.assert_allclose(warm.probability, expected, atol=1e-4)
    region = "whole tumour"
    assert warm.numbers[region].uncertainty > plain.numbers[region].uncertainty


def test_temperature_acts_on_every_sample(save_run, together):
    """With one window per slice, so that there is no blending."""
    model = load(save_run(method={"name": "deep-ensemble", "members": 2}, patch=[64, 64]))
    _, drawn = reference(model, together, samples=2)
    samples = apply_temperature(drawn, 0.2)
    prediction = model.predict(together, samples=2, temperature=0.2)
    np.testing.assert_allclose(prediction.probability, samples.mean(0), atol=2e-5)
    np.testing.assert_allclose(prediction.variance, samples.var(0, correction=0), atol=2e-5)


def test_a_mask_is_saved_in_the_values_of_the_training_data(run_directory, together, tmp_path):
    load(run_directory).predict(together).save(tmp_path / "mask.nii.gz")
    mask = nibabel.load(tmp_path / "mask.nii.gz")
    assert set(np.unique(mask.dataobj)) <= {0, 1, 2, 3}


@pytest.mark.parametrize("name", ["probability", "uncertainty", "variance"])
def test_maps_are_saved_in_the_geometry_of_the_scan(name, run_directory, together, tmp_path):
    prediction = load(run_directory).predict(together, samples=2)
    save = getattr(prediction, f"save_{name}")
    save(tmp_path / "map.nii.gz")
    image = nibabel.load(tmp_path / "map.nii.gz")
    regions_first = np.moveaxis(image.get_fdata(), -1, 0)
    np.testing.assert_allclose(regions_first, getattr(prediction, name), atol=2e-5)
    np.testing.assert_array_equal(image.affine, nibabel.load(together).affine)


def test_volumes_count_nested_regions_whole(shifted, phantom):
    prediction = shifted.predict(phantom[0], spacing=(1, 1, 2), samples=1)
    volume = (prediction.mask == 5).sum() * 2 / 1000
    assert prediction.volumes_ml == {"lesion": pytest.approx(volume)}
    lesion = prediction.levels[0]
    regions = (*shifted.task.regions, Region("core", (6,), 6))
    maps = ScanMaps(np.stack([lesion, lesion // 2]))
    nested = prediction_of(maps, regions, prediction.frame)
    assert nested.numbers["lesion"].volume_ml == prediction.volumes_ml["lesion"]


@pytest.mark.parametrize(
    ("shape", "complaint"),
    [
        (
            (40, 40),
            r"the ndarray is a 2D image, but the run was trained on volumes: give scans like those",
        ),
        ((2, 40, 40, 8), r"the ndarray has 2 channels, but the task has 1 \(MR\): provide"),
        (
            (2, 2, 2, 2, 2),
            r"the ndarray has an array of shape \(2, 2, 2, 2, 2\): save it as \[X, Y\]",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_errors(shape, complaint, shifted):
    with pytest.raises(UserError, match=complaint):
        shifted.predict(np.zeros(shape), spacing=(1, 1, 2))


def test_a_slice_seen_from_the_side_is_an_error(run_directory):
    with pytest.raises(UserError, match="seen from the side"):
        load(run_directory).predict(np.zeros((4, 40, 1, 40)), spacing=(1, 1, 3))


def test_a_folder_of_several_scans_is_an_error(run_directory, tumours):
    with pytest.raises(UserError, match=r"tumours holds 6 scans: give one\."):
        load(run_directory).predict(tumours)


@pytest.mark.parametrize("image", [[np.zeros((8, 8, 3))] * 2, None, 3.0])
def test_what_is_no_scan_is_an_error(image, run_directory):
    with pytest.raises(UserError, match=r"a \w+ is not a scan: give one file, array"):
        load(run_directory).predict(image, spacing=(1, 1, 3))


def test_an_array_without_spacing_is_an_error(shifted):
    with pytest.raises(UserError, match=r"the ndarray does not say how far .*: give it in mm"):
        shifted.predict(np.zeros((40, 40, 8)))


def test_a_file_without_spacing_is_an_error_if_the_training_scans_had_one(shifted, tmp_path):
    file = tmp_path / "scan.npy"
    np.save(file, np.zeros((40, 40, 8), np.float32))
    with pytest.raises(UserError, match=r"scan.npy stores no spacing, but the run was trained"):
        shifted.predict(file)


def test_predictors_and_predictions_show_themselves_in_a_line(shifted, canonical):
    assert repr(shifted) == "<Predictor supervised: from MR to lesion, on cpu>"
    prediction = shifted.predict(canonical)
    assert repr(prediction).startswith("<Prediction of 40 x 44 x 24 voxels: lesion ")
    page = prediction._repr_html_()
    assert "data:image/png;base64," in page
    assert "<td>lesion</td>" in page
