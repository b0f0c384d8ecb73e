"""A data set for nnU-Net holds the labels, the accepted pseudo-labels, and never a test case."""

import json
import shutil

import nibabel
import numpy as np
import pandas as pd
import pytest
import torch

from segpl.data.cases import Region
from segpl.data.layouts import read_dataset
from segpl.data.preparation import load_truth
from segpl.diagnosis import examine
from segpl.em.types import Predicted
from segpl.exporting.nnunet import LabelNumbering, export_nnunet
from segpl.foundation.errors import UserError

SPLIT = {
    "labelled": ["tumour_000"],
    "validation": ["tumour_001"],
    "unlabelled": ["tumour_002", "tumour_003"],
    "subjects": ["tumour_000", "tumour_001", "tumour_002", "tumour_003"],
}


@pytest.fixture
def run(make_run, tumours):
    """Makes a run directory on a data folder, the tumours by default."""

    def make(data=tumours, split=SPLIT):
        return make_run("segpl", (32, 32), read_dataset(data).task, split, data=str(data))

    return make


@pytest.fixture
def problems(monkeypatch):
    """What segpl doctor finds wrong with a folder. The time of a training step is not measured."""
    monkeypatch.setattr("segpl.diagnosis._estimate_training", lambda *_: None)
    return lambda folder: examine(folder).problems


def voxels(file):
    return np.asarray(nibabel.load(file).dataobj)


def accepted_table(folder):
    return pd.read_csv(folder / "accepted.csv", index_col="case")


def description(folder):
    return json.loads((folder / "dataset.json").read_text(encoding="utf-8"))


def expected_dice(p):
    """2 sum(p m) / (sum(p) + sum(m)), averaged over the regions whose mask m is not empty."""
    values = []
    for region in p:
        mask = region > 0.5
        if mask.any():
            values.append(2 * region[mask].sum() / (region.sum() + mask.sum()))
    return float(np.mean(values))


def test_labels_stay_and_unlabelled_scans_get_the_runs_own_masks(
    run, own_mask, problems, tumours, tmp_path
):
    directory = run()
    out = export_nnunet(directory, tmp_path / "Dataset001_Tumours", accept=0.0)
    exported = read_dataset(out)
    original = read_dataset(tumours)
    assert exported.task == original.task
    assert [case.name for case in exported.training] == SPLIT["subjects"]
    assert not exported.test
    assert not (out / "imagesTs").exists()
    for case, before in zip(exported.training, original.training, strict=True):
        for image, image_before in zip(case.images, before.images, strict=True):
            assert np.array_equal(voxels(image), voxels(image_before))
        assert np.allclose(nibabel.load(case.label).affine, nibabel.load(before.images[0]).affine)
        label = voxels(before.label) if before.label else own_mask(directory, *before.images)[0]
        assert np.array_equal(voxels(case.label), label)
    assert description(out)["regions_class_order"] == [1, 2, 3]
    assert not problems(out)


def test_the_expected_dice_decides_which_pseudo_labels_are_accepted(
    run, own_mask, tumours, tmp_path
):
    directory = run()
    dice = {}
    for name in SPLIT["unlabelled"]:
        _, p = own_mask(directory, *sorted((tumours / "imagesUn").glob(f"{name}_*")))
        dice[name] = expected_dice(p)
    worse, better = sorted(dice, key=dice.get)
    out = export_nnunet(directory, tmp_path / "out", accept=(dice[worse] + dice[better]) / 2)
    table = accepted_table(out)
    assert table["expected_dice"].to_dict() == pytest.approx(dice, abs=1e-4)
    assert table["accepted"].to_dict() == {worse: False, better: True}
    written = {case.name for case in read_dataset(out).training}
    assert written == {"tumour_000", "tumour_001", better}
    assert description(out)["numTraining"] == 3


@pytest.fixture
def manifest_data(tmp_path):
    """Three cases as arrays of two channels; labels of 2 and 5 as 64-bit integers."""
    data = tmp_path / "data"
    data.mkdir()
    generator = np.random.default_rng(0)
    for stem in ("a1", "b", "c"):
        np.save(data / f"{stem}.npy", generator.normal(size=(2, 32, 32, 3)))
        np.save(data / f"{stem}-label.npy", generator.choice([0, 2, 5], size=(32, 32, 3)))
    lines = [
        "subject,case,image,label",
        "a,a/1,a1.npy,a1-label.npy",
        "b,b,b.npy,b-label.npy",
        "c,c,c.npy,",
    ]
    (data / "manifest.csv").write_text("\n".join(lines))
    return data


def test_gaps_between_label_values_close_and_other_formats_become_nifti(
    run, own_mask, manifest_data, tmp_path
):
    split = {"labelled": ["a/1"], "validation": ["b"], "unlabelled": ["c"]}
    directory = run(manifest_data, split)
    out = export_nnunet(directory, tmp_path / "out", accept=0.0)
    written = description(out)
    assert written["labels"] == {"background": 0, "label 2": 1, "label 5": 2}
    assert written["channel_names"] == {"0": "channel 1", "1": "channel 2"}
    assert "regions_class_order" not in written

    cases = {case.name: case for case in read_dataset(out).training}
    assert set(cases) == {"a%2F1", "b", "c"}
    assert cases["a%2F1"].subject == "a"
    label = np.load(manifest_data / "a1-label.npy")
    truth = load_truth(cases["a%2F1"], read_dataset(out).task).y.numpy()
    assert np.array_equal(truth, [label == 2, label == 5])
    channel = np.load(manifest_data / "b.npy")[1]
    assert np.array_equal(voxels(cases["b"].images[1]), channel.astype(np.float32))
    own, _ = own_mask(directory, manifest_data / "c.npy")
    assert np.array_equal(voxels(cases["c"].label), np.select([own == 2, own == 5], [1, 2]))


def test_label_values_are_numbered_in_their_order():
    numbering = LabelNumbering.of((Region("whole", (4, 1, 2), 2), Region("core", (4,), 4)))
    assert numbering.known == (1, 2, 4)
    assert numbering.label(np.array([[[0, 4, 2, 1]]])).tolist() == [[[0, 3, 2, 1]]]
    assert numbering.number(2) == 2
    assert numbering.number(4) == 3


def test_label_values_may_be_negative():
    """CARVE marks vessels of unknown kind by -999."""
    numbering = LabelNumbering.of((Region("vessel", (-999, 1, 2), 1),))
    assert numbering.label(np.array([[[0, -999, 1, 2]]])).tolist() == [[[0, 1, 2, 3]]]


def test_a_scan_with_an_empty_mask_is_not_accepted(run, problems, tmp_path, monkeypatch):
    def predict_background(_, model, x, samples):
        p = torch.full_like(x[:, :3], 0.2)
        return Predicted(p, p[None])

    monkeypatch.setattr("segpl.methods.segpl.SegPL.predict", predict_background)
    out = export_nnunet(run(), tmp_path / "out", accept=0.0)
    table = accepted_table(out)
    assert table["expected_dice"].isna().all()
    assert not table["accepted"].any()
    assert len(read_dataset(out).training) == 2
    assert not problems(out)


@pytest.mark.parametrize("files", ["labelsTr/tumour_000*", "*Tr/tumour_000*", "*/tumour_002*"])
def test_a_case_that_is_gone_since_the_training_is_named(files, run, tumours, tmp_path):
    data = shutil.copytree(tumours, tmp_path / "data")
    directory = run(data)
    for file in data.glob(files):
        file.unlink()
    name = files.partition("/")[2].rstrip("*")
    with pytest.raises(UserError, match=rf"data no longer has {name} as .*run was trained on it"):
        export_nnunet(directory, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_run_without_its_split_is_refused(run, tmp_path):
    directory = run()
    (directory / "split.json").unlink()
    with pytest.raises(UserError, match=r"split.json is missing"):
        export_nnunet(directory, tmp_path / "out")
    assert not (tmp_path / "out").exists()
