"""`evaluate`, `predict`, `rank` and `export` give a scan the same mask, voxel for voxel."""

import shutil
from dataclasses import replace

import nibabel
import numpy as np
import onnxruntime
import pytest
import safetensors.torch
import torch
from nibabel.orientations import axcodes2ornt, ornt_transform

from segpl.data.layouts import read_dataset
from segpl.data.preparation import load as load_case
from segpl.evaluation import evaluate
from segpl.exporting.nnunet import pseudo_label
from segpl.exporting.onnx import export_onnx
from segpl.foundation.files import file_name
from segpl.inference.label_map import merge_regions
from segpl.inference.predictor import Predictor, load
from segpl.inference.windows import predict_volume
from segpl.methods.segpl import SegPL
from segpl.prediction import predict_files
from segpl.prediction.request import Request
from segpl.ranking.assessment import assess
from segpl.rundir import WEIGHTS_FILE, read_table
from segpl.settings.planning import plan_run
from segpl.training.loop import train


@pytest.fixture(scope="module")
def reoriented(tumours, tmp_path_factory):
    """The tumour phantoms with half of the test scans stored in another orientation."""
    folder = tmp_path_factory.mktemp("reoriented")
    shutil.copytree(tumours, folder, dirs_exist_ok=True)
    transform = ornt_transform(axcodes2ornt("RAS"), axcodes2ornt("PLI"))
    first = read_dataset(folder).test[0]
    for file in (*first.images, first.label):
        nibabel.save(nibabel.load(file).as_reoriented(transform), file)
    return folder


SETTINGS = {
    "2D": {"patch": [32, 32], "spacing": None},
    "3D": {"patch": [32, 32, 8], "spacing": None},
    "2D, resampled": {"patch": [32, 32], "spacing": [1.7, 1.3]},
    "3D, resampled": {"patch": [32, 32, 8], "spacing": [1.4, 1.9, 2.6]},
}


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_evaluate_predict_and_export_give_the_same_masks(settings, samples, reoriented, tmp_path):
    """Nested regions, and a scan that is stored in another orientation than the others."""
    common = {"method": "segpl-vi", "channels": 4, "steps": 1, "labelled": 1, "validation": 0}
    directory = train(plan_run(reoriented, common | settings), tmp_path / "run")
    expect_foreground(directory)
    cases = read_dataset(reoriented).test[:2]
    assert nibabel.aff2axcodes(nibabel.load(cases[0].images[0]).affine) == tuple("PLI")

    scores = evaluate(directory, samples=samples, first=2)
    suffix = "" if samples == 1 else f"-{samples}-samples"
    request = Request(tmp_path / "out", samples)
    predict_files(directory, [*cases[0].images, *cases[1].images], request)
    predictor = load(directory)
    for case in cases:
        name = f"{file_name(case.name)}.nii.gz"
        evaluated = nibabel.load(directory / f"masks{suffix}" / name)
        predicted = nibabel.load(tmp_path / "out" / name)
        assert len(np.unique(evaluated.dataobj)) > 1, "an empty mask would agree with anything"
        np.testing.assert_array_equal(predicted.dataobj, evaluated.dataobj)
        np.testing.assert_allclose(predicted.affine, evaluated.affine, atol=1e-6)
        if samples == 1:
            np.testing.assert_array_equal(pseudo_label(case, predictor).label, evaluated.dataobj)
    assert set(read_table(scores)["case"]) == {case.name for case in cases}


def onnx_maps(directory, case, folder):
    """All channels of an exported run for a case, window by window on the network's grid."""
    file = export_onnx(directory, folder / "model.onnx")
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])

    def window(x):
        (channels,) = session.run(None, {"image": x.numpy()})
        return torch.from_numpy(channels)

    predictor = load(directory)
    x = load_case(case.unlabelled(), predictor.task, predictor.run.preparation).x
    return predict_volume(window, x, predictor.run.patch)


def plain_probability(directory, case):
    """The probability of theta alone, by a method without thresholds."""
    predictor = load(directory)
    run = replace(predictor.run, method=SegPL())
    theta = predictor.model["theta"]
    return Predictor(run, predictor.task, theta, predictor.device).predict_case(case).probability


@pytest.fixture(scope="module")
def with_thresholds(reoriented, tmp_path_factory):
    """A run whose thresholds are near 0.4, evaluated with 1 and with 5 samples."""
    settings = {
        "method": {"name": "segpl-vi", "prior": {"name": "normal", "mean": 0.4}},
        "channels": 4,
        "steps": 1,
        "labelled": 1,
        "validation": 0,
        "patch": [32, 32],
        "spacing": None,
    }
    directory = train(plan_run(reoriented, settings), tmp_path_factory.mktemp("thresholds") / "run")
    expect_foreground(directory)
    for samples in (1, 5):
        evaluate(directory, samples=samples, first=2)
    return directory


def voxels(file):
    return np.asarray(nibabel.load(file).dataobj)


SAMPLES = pytest.mark.parametrize(
    ("samples", "suffix"), [(1, ""), (5, "-5-samples")], ids=["1 sample", "5 samples"]
)


@SAMPLES
def test_learnt_thresholds_move_all_masks_alike(samples, suffix, with_thresholds, reoriented):
    case = read_dataset(reoriented).test[1]
    predictor = load(with_thresholds)
    mask = voxels(with_thresholds / f"masks{suffix}/{file_name(case.name)}.nii.gz")
    p = plain_probability(with_thresholds, case)
    plain_mask = merge_regions(torch.from_numpy(p > 0.5), predictor.task.regions)
    assert (plain_mask != mask).mean() > 0.01, "the threshold must matter, or nothing is shown"

    assessment, tile = assess(predictor, case, samples)
    worst_slice = mask[..., assessment.slice]
    np.testing.assert_array_equal(np.bincount(tile.mask.ravel()), np.bincount(worst_slice.ravel()))
    if samples == 1:
        np.testing.assert_array_equal(pseudo_label(case, predictor).label, mask)


@SAMPLES
def test_learnt_thresholds_move_no_probability(
    samples, suffix, with_thresholds, reoriented, tmp_path
):
    case = read_dataset(reoriented).test[1]
    name = f"{file_name(case.name)}.nii.gz"
    p = plain_probability(with_thresholds, case)
    predict_files(with_thresholds, case.images, Request(tmp_path, samples, probabilities=True))
    predicted = nibabel.load(tmp_path / "probability" / name).get_fdata()
    np.testing.assert_allclose(np.moveaxis(predicted, -1, 0), p, atol=1e-6)
    percent = voxels(with_thresholds / f"probabilities{suffix}" / name)
    np.testing.assert_allclose(np.moveaxis(percent, -1, 0), 100 * p, atol=0.51)
    np.testing.assert_array_equal(
        voxels(tmp_path / name), voxels(with_thresholds / f"masks{suffix}" / name)
    )


def test_an_exported_run_has_the_probabilities_and_the_masks(with_thresholds, reoriented, tmp_path):
    case = read_dataset(reoriented).test[1]
    mask = voxels(with_thresholds / f"masks/{file_name(case.name)}.nii.gz")
    p, for_masks = onnx_maps(with_thresholds, case, tmp_path).split(3)
    np.testing.assert_allclose(p, plain_probability(with_thresholds, case), atol=1e-4)
    is_clear = ((for_masks - 0.5).abs() > 1e-4).all(0).numpy()
    assert is_clear.mean() > 0.99
    exported = merge_regions(for_masks > 0.5, load(with_thresholds).task.regions)
    np.testing.assert_array_equal(exported[is_clear], mask[is_clear])


def expect_foreground(directory):
    """Weights that expect as much foreground as background, so that masks have both."""
    weights = safetensors.torch.load_file(directory / WEIGHTS_FILE)
    for name, weight in weights.items():
        if name.endswith("head.block.conv.conv.bias"):
            weights[name] = torch.zeros_like(weight)
    safetensors.torch.save_file(weights, directory / WEIGHTS_FILE)
