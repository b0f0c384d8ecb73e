"""`evaluate`, `predict` and `export` give a scan the same mask, voxel for voxel."""

import shutil

import nibabel
import numpy as np
import pytest
import safetensors.torch
import torch
from nibabel.orientations import axcodes2ornt, ornt_transform

from segpl.data.layouts import read_dataset
from segpl.evaluation import evaluate
from segpl.exporting.nnunet import pseudo_label
from segpl.foundation.files import file_name
from segpl.inference.predictor import load
from segpl.prediction import predict_files
from segpl.prediction.request import Request
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


def expect_foreground(directory):
    """Weights that expect as much foreground as background, so that masks have both."""
    weights = safetensors.torch.load_file(directory / WEIGHTS_FILE)
    for name, weight in weights.items():
        if name.endswith("head.block.conv.conv.bias"):
            weights[name] = torch.zeros_like(weight)
    safetensors.torch.save_file(weights, directory / WEIGHTS_FILE)
