"""A data set for nnU-Net holds the labels as they were, the accepted pseudo-labels, and never a test case."""

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
from segpl.exporting.nnunet import Values, export_nnunet
from segpl.foundation.errors import UserError

SPLIT = {
    "labelled": ["tumour_000"],
    "validation": ["tumour_001"],
    "unlabelled": ["tumour_002", "tumour_003"],
    "subjects": ["tumour_000", "tumour_001", "tumour_002", "tumour_003"],
}


@pytest.fixture
def run(drawn, tumours):
    """Makes a run directory on a data folder, the tumours by default."""
    return lambda data=tumours, split=SPLIT: drawn(
        "segpl", (32, 32), read_dataset(data).task, split, data=str(data)
    )


@pytest.fixture
def problems(monkeypatch):
    """What segpl doctor finds wrong with a folder; how long a training step would take is left out."""
    monkeypatch.setattr("segpl.diagnosis._estimate", lambda *_: None)
    return lambda folder: examine(folder).problems


def voxels(file):
    return np.asarray(nibabel.load(file).dataobj)


def table(folder):
    return pd.read_csv(folder / "accepted.csv", index_col="case")


def test_labels_stay_and_unlabelled_scans_get_the_runs_own_masks(
    run, own_mask, problems, tumours, tmp_path
):
    directory = run()
    out = export_nnunet(directory, tmp_path / "Dataset001_Tumours", accept=0.0)
    dataset, original = read_dataset(out), read_dataset(tumours)
    assert dataset.task == original.task
    assert [case.name for case in dataset.training] == [
        "tumour_000",
        "tumour_001",
        "tumour_002",
        "tumour_003",
    ]
    assert not dataset.test
    assert not (out / "imagesTs").exists()
    for case, before in zip(dataset.training, original.training, strict=True):
        assert all(
            np.array_equal(voxels(a), voxels(b))
            for a, b in zip(case.images, before.images, strict=True)
        )
        assert np.allclose(nibabel.load(case.label).affine, nibabel.load(before.images[0]).affine)
        own = voxels(before.label) if before.label else own_mask(directory, *before.images)[0]
        assert np.array_equal(voxels(case.label), own)
    assert json.loads((out / "dataset.json").read_text(encoding="utf-8"))[
        "regions_class_order"
    ] == [1, 2, 3]
    assert not problems(out)


def test_the_bar_decides_who_goes_in_and_the_table_says_why(run, own_mask, tumours, tmp_path):
    directory = run()
    found = {}
    for name in SPLIT["unlabelled"]:
        _, p = own_mask(directory, *sorted((tumours / "imagesUn").glob(f"{name}_*")))
        dice = [
            2 * each[each > 0.5].sum() / (each.sum() + (each > 0.5).sum())
            for each in p
            if (each > 0.5).any()
        ]
        found[name] = float(np.mean(dice))
    worse, better = sorted(found, key=found.get)
    out = export_nnunet(directory, tmp_path / "out", accept=(found[worse] + found[better]) / 2)
    rows = table(out)
    assert rows["expected_dice"].to_dict() == pytest.approx(found, abs=1e-4)
    assert rows["accepted"].to_dict() == {worse: False, better: True}
    assert {case.name for case in read_dataset(out).training} == {
        "tumour_000",
        "tumour_001",
        better,
    }
    assert json.loads((out / "dataset.json").read_text(encoding="utf-8"))["numTraining"] == 3


def test_gaps_between_label_values_close_and_other_formats_become_nifti(run, own_mask, tmp_path):
    """Two cases of one subject, arrays of two channels, labels of 2 and 5 in numbers of 64 bits."""
    data = tmp_path / "data"
    data.mkdir()
    draw = np.random.default_rng(0)
    lines = ["subject,case,image,label"]
    for name, subject, label in (("a/1", "a", True), ("b", "b", True), ("c", "c", False)):
        stem = name.replace("/", "")
        np.save(data / f"{stem}.npy", draw.normal(size=(2, 32, 32, 3)))
        np.save(data / f"{stem}-label.npy", draw.choice([0, 2, 5], size=(32, 32, 3)))
        lines.append(
            f"{subject},{name},{stem}.npy,{stem}-label.npy"
            if label
            else f"{subject},{name},{stem}.npy,"
        )
    (data / "manifest.csv").write_text("\n".join(lines))
    directory = run(data, {"labelled": ["a/1"], "validation": ["b"], "unlabelled": ["c"]})
    out = export_nnunet(directory, tmp_path / "out", accept=0.0)
    description = json.loads((out / "dataset.json").read_text(encoding="utf-8"))
    assert description["labels"] == {"background": 0, "label 2": 1, "label 5": 2}
    assert description["channel_names"] == {"0": "channel 1", "1": "channel 2"}
    assert "regions_class_order" not in description
    cases = {case.name: case for case in read_dataset(out).training}
    assert set(cases) == {"a%2F1", "b", "c"}
    assert cases["a%2F1"].subject == "a"
    drawn_label = np.load(data / "a1-label.npy")
    truth = load_truth(cases["a%2F1"], read_dataset(out).task).y.numpy()
    assert np.array_equal(truth, [drawn_label == 2, drawn_label == 5])
    assert np.array_equal(
        voxels(cases["b"].images[1]), np.load(data / "b.npy")[1].astype(np.float32)
    )
    own, _ = own_mask(directory, data / "c.npy")
    assert np.array_equal(voxels(cases["c"].label), np.select([own == 2, own == 5], [1, 2]))


def test_values_close_ranks_in_their_order():
    values = Values.of((Region("whole", (4, 1, 2), 2), Region("core", (4,), 4)))
    assert values.known == (1, 2, 4)
    assert values.label(np.array([[[0, 4, 2, 1]]])).tolist() == [[[0, 3, 2, 1]]]
    assert (values[2], values[4]) == (2, 3)
    negative = Values.of(
        (Region("vessel", (-999, 1, 2), 1),)
    )  # as CARVE marks vessels of unknown kind
    assert negative.label(np.array([[[0, -999, 1, 2]]])).tolist() == [[[0, 1, 2, 3]]]


def test_a_scan_in_which_nothing_is_found_is_not_taken(run, problems, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "segpl.methods.segpl.SegPL.predict",
        lambda _, model, x, samples: torch.full_like(x[None, :, :3], 0.2),
    )
    out = export_nnunet(run(), tmp_path / "out", accept=0.0)
    assert table(out)["expected_dice"].isna().all()
    assert not table(out)["accepted"].any()
    assert len(read_dataset(out).training) == 2
    assert not problems(out)


def test_data_that_changed_since_the_training_are_named(run, tumours, tmp_path):
    data = shutil.copytree(tumours, tmp_path / "data")
    directory = run(data)
    (data / "labelsTr/tumour_000.nii.gz").unlink()
    with pytest.raises(
        UserError, match=r"data no longer has tumour_000 as .*run was trained on it"
    ):
        export_nnunet(directory, tmp_path / "out")
    (directory / "split.json").unlink()
    with pytest.raises(UserError, match=r"split.json is missing"):
        export_nnunet(directory, tmp_path / "out")
    assert not (tmp_path / "out").exists()
