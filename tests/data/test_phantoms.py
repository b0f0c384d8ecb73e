"""Phantoms: the same for ever, laid out like a user's folder, and neither trivial nor empty."""

import json
from pathlib import Path
from typing import get_args

import nibabel
import numpy as np
import pytest
from scipy.ndimage import binary_opening

import segpl.data.phantoms
from segpl.data.phantoms import Phantom, Task, tumour, vessels, write_phantoms
from segpl.foundation.errors import UserError

TASKS = get_args(Task)
DRAW = {"tumour": tumour.draw, "vessels": vessels.draw}
SUBJECTS = range(6)
TINY = Phantom(np.zeros((1, 4, 4, 4), np.float32), np.zeros((4, 4, 4), np.uint8), (1.0, 1.0, 1.0))


@pytest.fixture(scope="module")
def phantoms() -> dict[str, list[Phantom]]:
    return {task: [DRAW[task](0, subject) for subject in SUBJECTS] for task in TASKS}


@pytest.fixture(scope="module")
def folders(tmp_path_factory, phantoms) -> dict[str, Path]:
    with pytest.MonkeyPatch.context() as patch:  # what is drawn already need not be drawn again
        for task in TASKS:
            patch.setitem(
                segpl.data.phantoms.DRAW,
                task,
                lambda _, subject, task=task: phantoms[task][subject],
            )
        return {
            task: write_phantoms(task, tmp_path_factory.mktemp(task), subjects=6) for task in TASKS
        }


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def best_threshold_dice(channel: np.ndarray, region: np.ndarray) -> float:
    """The Dice of the best mask `channel >= t` over every t, chosen with the label in hand."""
    hits = np.cumsum(region.ravel()[np.argsort(-channel.ravel(), kind="stable")])
    return float(np.max(2 * hits / (np.arange(1, region.size + 1) + region.sum())))


@pytest.mark.parametrize("task", TASKS)
def test_the_same_bytes_every_time(task, folders, tmp_path):
    assert contents(write_phantoms(task, tmp_path / "again", subjects=6)) == contents(folders[task])


@pytest.mark.parametrize("task", TASKS)
def test_a_subject_does_not_depend_on_how_many_there_are(task, folders, tmp_path, monkeypatch):
    def draw_one(seed: int, subject: int) -> Phantom:
        return DRAW[task](seed, subject) if subject == 3 else TINY

    monkeypatch.setitem(segpl.data.phantoms.DRAW, task, draw_one)
    more = write_phantoms(task, tmp_path / "more", subjects=9)
    name = f"{task}_003_0000.nii.gz"
    assert next(more.rglob(name)).read_bytes() == next(folders[task].rglob(name)).read_bytes()


def test_files_carry_no_time_stamp(folders):
    for path in folders["vessels"].rglob("*.nii.gz"):
        assert path.read_bytes()[4:8] == bytes(4)


@pytest.mark.parametrize("task", TASKS)
def test_seeds_and_subjects_differ(task, phantoms):
    first, other_subject, other_seed = phantoms[task][0], phantoms[task][1], DRAW[task](1, 0)
    for other in (other_subject, other_seed):
        assert (first.label != other.label).any()
        assert np.mean(first.image != other.image) > 0.1


@pytest.mark.parametrize(("task", "channels"), [("tumour", 4), ("vessels", 1)])
def test_layout_and_no_label_for_the_unlabelled(task, channels, folders):
    split = {"Tr": (0, 1), "Un": (2, 3), "Ts": (4, 5)}
    images = {
        f"images{place}/{task}_{subject:03}_{channel:04}.nii.gz"
        for place, subjects in split.items()
        for subject in subjects
        for channel in range(channels)
    }
    labels = {
        f"labels{place}/{task}_{subject:03}.nii.gz"
        for place in ("Tr", "Ts")
        for subject in split[place]
    }
    assert set(contents(folders[task])) == images | labels | {"dataset.json"}


def test_dataset_json(folders):
    brain, lung = (json.loads((folders[task] / "dataset.json").read_text()) for task in TASKS)
    assert brain["channel_names"] == {"0": "flair", "1": "t1", "2": "t1ce", "3": "t2"}
    assert brain["labels"] == {
        "background": 0,
        "whole tumour": [1, 2, 3],
        "tumour core": [2, 3],
        "enhancing core": [3],
    }
    assert brain["regions_class_order"] == [1, 2, 3]
    assert lung["channel_names"] == {"0": "CT"}
    assert lung["labels"] == {"background": 0, "vessel": 1}
    for dataset in (brain, lung):
        assert dataset["numTraining"] == 2
        assert dataset["file_ending"] == ".nii.gz"
        assert "hantoms" in dataset["description"]
        assert "seed 0" in dataset["description"]


@pytest.mark.parametrize(("subjects", "counts"), [(3, (1, 1, 1)), (4, (1, 2, 1)), (5, (1, 3, 1))])
def test_what_does_not_divide_by_three_is_unlabelled(subjects, counts, tmp_path, monkeypatch):
    monkeypatch.setitem(segpl.data.phantoms.DRAW, "vessels", lambda seed, subject: TINY)
    folder = write_phantoms("vessels", tmp_path, subjects=subjects)
    assert (
        tuple(len(list((folder / f"images{place}").iterdir())) for place in ("Tr", "Un", "Ts"))
        == counts
    )


@pytest.mark.parametrize("task", TASKS)
def test_files_hold_what_was_drawn(task, folders, phantoms):
    image = nibabel.load(folders[task] / f"imagesTr/{task}_001_0000.nii.gz")
    label = nibabel.load(folders[task] / f"labelsTr/{task}_001.nii.gz")
    drawn = phantoms[task][1]
    assert image.get_data_dtype() == np.int16
    assert label.get_data_dtype() == np.uint8
    assert image.header.get_zooms() == pytest.approx(drawn.spacing)
    assert nibabel.aff2axcodes(image.affine) == ("R", "A", "S")
    np.testing.assert_array_equal(image.affine, label.affine)
    np.testing.assert_array_equal(np.asarray(label.dataobj), drawn.label)
    np.testing.assert_allclose(np.asarray(image.dataobj), drawn.image[0], atol=0.5)


def test_tumour_regions_are_nested_with_oedema_all_around_the_core(phantoms):
    for image, label, _ in phantoms["tumour"]:
        assert image.shape == (4, 96, 96, 24)
        assert {0, 1, 3} <= set(np.unique(label)) <= {0, 1, 2, 3}
        sides = [np.roll(label, step, axis) for axis in (0, 1) for step in (-1, 1)]
        touches_outside = np.min(sides, axis=0) == 0
        assert np.mean(touches_outside[label >= 2]) < 0.1


def test_outside_the_head_is_exactly_zero(phantoms):
    for image, label, _ in phantoms["tumour"]:
        head = image > 0
        assert (head == head[0]).all()
        assert 0.2 < head.mean() < 0.6
        assert not label[~head[0]].any()


def test_foreground_shares(phantoms):
    whole = [np.mean(p.label[p.image[0] > 0] > 0) for p in phantoms["tumour"]]
    blood = [p.label.mean() for p in phantoms["vessels"]]
    assert min(whole) > 0.01
    assert max(whole) < 0.25
    assert min(blood) > 0.02
    assert max(blood) < 0.09


def test_vessels_are_as_thin_as_one_voxel_and_as_thick_as_four(phantoms):
    for _, label, _ in phantoms["vessels"]:
        thin = 1 - binary_opening(label, np.ones((2, 2, 2))).sum() / label.sum()
        assert 0.15 < thin < 0.6
        assert binary_opening(label, np.ones((4, 4, 3))).any()


def test_lung_looks_like_ct(phantoms):
    for image, label, _ in phantoms["vessels"]:
        assert image.shape == (1, 96, 96, 48)
        assert image.min() >= -1024
        assert -920 < np.median(image[0][label == 0]) < -760


@pytest.mark.parametrize("task", TASKS)
def test_no_threshold_solves_most_subjects(task, phantoms):
    scores = [
        max(best_threshold_dice(sign * channel, label > 0) for channel in image for sign in (1, -1))
        for image, label, _ in phantoms[task]
    ]
    assert np.median(scores) < 0.6


def test_refuses_a_folder_that_is_not_empty(tmp_path):
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(UserError, match=f"{tmp_path.name} is not empty: .*another"):
        write_phantoms("vessels", tmp_path)


def test_refuses_fewer_than_three_subjects(tmp_path):
    with pytest.raises(UserError, match="at least 3 subjects"):
        write_phantoms("vessels", tmp_path / "new", subjects=2)
    assert not (tmp_path / "new").exists()
