"""Several runs that predict together."""

import shutil

import nibabel
import numpy as np
import pytest
import torch

from segpl import api
from segpl.data.layouts import read_dataset
from segpl.foundation.errors import UserError
from segpl.inference.predictor import MapOptions, load
from segpl.inference.temperature import apply_temperature
from segpl.ranking import rank


@pytest.fixture(scope="module")
def image():
    """An image on the network's grid."""
    return torch.randn(4, 40, 40, 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def runs(save_run, tmp_path_factory):
    """A folder of two runs of different methods and seeds."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(save_run(seed=1, method="segpl"), folder / "a")
    shutil.copytree(save_run(seed=2, method="supervised"), folder / "b")
    return folder


def all_samples(runs, image, samples, temperature):
    """The samples of both runs, one after the other, predicted by each run alone."""
    windows = image.permute(3, 0, 1, 2)[..., :32, :32]
    predictions = []
    for name in ("a", "b"):
        alone = load(runs / name)
        predicted = alone.run.method.predict(alone.model, windows, samples)
        predictions.append(apply_temperature(predicted.samples, temperature))
    return torch.cat(predictions).permute(0, 2, 3, 4, 1)


@pytest.mark.parametrize(("samples", "temperature"), [(1, 1.0), (3, 1.0), (3, 0.5)])
def test_probability_and_variance_are_those_of_all_samples(samples, temperature, runs, image):
    """In one window, so that there is no blending."""
    expected = all_samples(runs, image, samples, temperature)
    maps = load(runs).maps(image[:, :32, :32], MapOptions(samples, (temperature,)))
    p = maps.levels / 65535
    np.testing.assert_allclose(p[:3], expected.mean(0), atol=2e-5)
    np.testing.assert_allclose(p[3:] / 4, expected.var(0, correction=0), atol=2e-5)


def test_predict_with_a_folder_of_runs_writes_the_mean_of_their_probabilities(
    runs, tumours, tmp_path
):
    scan = read_dataset(tumours).test[0]
    folders = {"both": runs, "a": runs / "a", "b": runs / "b"}
    probabilities = {}
    for name, folder in folders.items():
        api.predict(folder, scan.images, tmp_path / name, probabilities=True)
        (file,) = (tmp_path / name / "probability").iterdir()
        probabilities[name] = nibabel.load(file).get_fdata()
    mean = (probabilities["a"] + probabilities["b"]) / 2
    np.testing.assert_allclose(probabilities["both"], mean, atol=3e-5)
    (mask,) = (tmp_path / "both").glob("*.nii.gz")
    is_clear = (abs(mean - 0.5) > 3e-5).all(-1)
    inside = nibabel.load(mask).get_fdata() > 0
    np.testing.assert_array_equal(inside[is_clear], (mean > 0.5).any(-1)[is_clear])
    assert list((tmp_path / "both/variance").iterdir())


def test_a_folder_of_runs_ranks_scans(runs, tumours, tmp_path):
    images = [image for case in read_dataset(tumours).training[2:] for image in case.images]
    file = rank(runs, images, tmp_path / "rank.csv")
    assert file.read_text(encoding="utf-8").count("\n") == 3


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"spacing": [2.0, 2.0]}, "its spacing, window or orientation differ"),
        ({"patch": [16, 16]}, "its patch differ"),
    ],
)
def test_runs_that_were_planned_differently_are_refused(settings, complaint, save_run, tmp_path):
    shutil.copytree(save_run(), tmp_path / "a")
    shutil.copytree(save_run(**settings), tmp_path / "b")
    with pytest.raises(UserError, match=complaint):
        load(tmp_path)


def test_runs_of_other_regions_are_refused(save_run, tmp_path):
    shutil.copytree(save_run(), tmp_path / "a")
    shutil.copytree(save_run(), tmp_path / "b")
    file = tmp_path / "b/task.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("whole tumour", "liver"), encoding="utf-8")
    with pytest.raises(UserError, match="its channels or regions differ"):
        load(tmp_path)


def test_a_folder_of_runs_has_no_fitted_temperature(runs, tmp_path):
    with pytest.raises(UserError, match="a temperature is fitted for one run"):
        api.predict(runs, [tmp_path], tmp_path / "out", temperature="fit")


def test_evaluate_and_export_take_a_single_run(runs, tmp_path):
    with pytest.raises(UserError, match="is not a run directory"):
        api.evaluate(runs)
    with pytest.raises(UserError, match="is not a run directory"):
        api.export(runs, "nnunet", tmp_path / "out")
