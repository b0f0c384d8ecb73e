"""Phantoms: always the same, laid out like a user's folder, and neither trivial nor empty."""

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
TINY = Phantom(
    image=np.zeros((1, 4, 4, 4), np.float32),
    label=np.zeros((4, 4, 4), np.uint8),
    spacing=(1.0, 1.0, 1.0),
)


@pytest.fixture(scope="module")
def phantoms() -> dict[str, list[Phantom]]:
    """Six subjects of each task."""
    by_task = {}
    for task in TASKS:
        by_task[task] = [DRAW[task](0, subject) for subject in SUBJECTS]
    return by_task


@pytest.fixture(scope="module")
def folders(tmp_path_factory, phantoms) -> dict[str, Path]:
    """The same subjects as data folders."""
    by_task = {}
    for task in TASKS:

        def already_drawn(seed: int, subject: int, task: str = task) -> Phantom:
            return phantoms[task][subject]

        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(segpl.data.phantoms.DRAW, task, already_drawn)
            by_task[task] = write_phantoms(task, tmp_path_factory.mktemp(task), subjects=6)
    return by_task


def contents(folder: Path) -> dict[str, bytes]:
    """The content of all files by their path in the folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.mark.parametrize("task", TASKS)
def test_the_same_bytes_every_time(task, folders, tmp_path):
    again = write_phantoms(task, tmp_path / "again", subjects=6)
    assert contents(again) == contents(folders[task])


@pytest.mark.parametrize("task", TASKS)
def test_a_subject_does_not_depend_on_how_many_there_are(task, folders, tmp_path, monkeypatch):
    def draw_subject_3(seed: int, subject: int) -> Phantom:
        return DRAW[task](seed, subject) if subject == 3 else TINY

    monkeypatch.setitem(segpl.data.phantoms.DRAW, task, draw_subject_3)
    more = write_phantoms(task, tmp_path / "more", subjects=9)
    name = f"{task}_003_0000.nii.gz"
    of_nine = next(more.rglob(name))
    of_six = next(folders[task].rglob(name))
    assert of_nine.read_bytes() == of_six.read_bytes()


def test_files_carry_no_time_stamp(folders):
    for path in folders["vessels"].rglob("*.nii.gz"):
        assert path.read_bytes()[4:8] == bytes(4)


@pytest.mark.parametrize("task", TASKS)
def test_seeds_and_subjects_differ(task, phantoms):
    first = phantoms[task][0]
    other_subject = phantoms[task][1]
    other_seed = DRAW[task](1, 0)
    for other in (other_subject, other_seed):
        assert (first.label != other.label).any()
        assert np.mean(first.image != other.image) > 0.1


@pytest.mark.parametrize(("task", "channels"), [("tumour", 4), ("vessels", 1)])
def test_the_layout_is_that_of_nnunet_and_unlabelled_subjects_have_no_label(
    task, channels, folders
):
    subjects = {"Tr": (0, 1), "Un": (2, 3), "Ts": (4, 5)}
    expected = {"dataset.json"}
    for split, numbers in subjects.items():
        for number in numbers:
            name = f"{task}_{number:03}"
            for channel in range(channels):
                expected.add(f"images{split}/{name}_{channel:04}.nii.gz")
            if split != "Un":
                expected.add(f"labels{split}/{name}.nii.gz")
    assert contents(folders[task]).keys() == expected


def description(folder: Path) -> dict:
    return json.loads((folder / "dataset.json").read_text())


def test_the_description_of_tumours_names_modalities_and_nested_regions(folders):
    tumours = description(folders["tumour"])
    assert tumours["channel_names"] == {"0": "flair", "1": "t1", "2": "t1ce", "3": "t2"}
    assert tumours["labels"] == {
        "background": 0,
        "whole tumour": [1, 2, 3],
        "tumour core": [2, 3],
        "enhancing core": [3],
    }
    assert tumours["regions_class_order"] == [1, 2, 3]


def test_the_description_of_vessels_names_ct_and_one_region(folders):
    lungs = description(folders["vessels"])
    assert lungs["channel_names"] == {"0": "CT"}
    assert lungs["labels"] == {"background": 0, "vessel": 1}


@pytest.mark.parametrize("task", TASKS)
def test_the_description_says_how_the_phantoms_were_made(task, folders):
    dataset = description(folders[task])
    assert dataset["numTraining"] == 2
    assert dataset["file_ending"] == ".nii.gz"
    assert "Phantoms" in dataset["description"]
    assert "seed 0" in dataset["description"]


@pytest.mark.parametrize(("subjects", "counts"), [(3, [1, 1, 1]), (4, [1, 2, 1]), (5, [1, 3, 1])])
def test_subjects_left_over_by_the_division_into_thirds_are_unlabelled(
    subjects, counts, tmp_path, monkeypatch
):
    monkeypatch.setitem(segpl.data.phantoms.DRAW, "vessels", lambda seed, subject: TINY)
    folder = write_phantoms("vessels", tmp_path, subjects=subjects)
    written = []
    for split in ("Tr", "Un", "Ts"):
        images = list((folder / f"images{split}").iterdir())
        written.append(len(images))
    assert written == counts


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


def touches_background(label: np.ndarray) -> np.ndarray:
    """Whether one of the four neighbours of a voxel in its slice is background."""
    touches = np.zeros(label.shape, bool)
    for axis in (0, 1):
        for step in (-1, 1):
            touches |= np.roll(label, step, axis) == 0
    return touches


def test_tumour_regions_are_nested_with_oedema_all_around_the_core(phantoms):
    for image, label, _ in phantoms["tumour"]:
        assert image.shape == (4, 96, 96, 24)
        assert {0, 1, 3} <= set(np.unique(label)) <= {0, 1, 2, 3}
        core = label >= 2
        assert np.mean(touches_background(label)[core]) < 0.1


def test_outside_the_head_is_exactly_zero(phantoms):
    for image, label, _ in phantoms["tumour"]:
        head = image > 0
        assert (head == head[0]).all()
        assert 0.2 < head.mean() < 0.6
        assert not label[~head[0]].any()


def test_tumours_fill_a_small_part_of_the_head(phantoms):
    for image, label, _ in phantoms["tumour"]:
        head = image[0] > 0
        assert 0.01 < np.mean(label[head] > 0) < 0.25


def test_vessels_fill_a_small_part_of_the_lung(phantoms):
    for _, label, _ in phantoms["vessels"]:
        assert 0.02 < label.mean() < 0.09


def test_vessels_are_as_thin_as_one_voxel_and_as_thick_as_four(phantoms):
    for _, label, _ in phantoms["vessels"]:
        thicker_than_a_voxel = binary_opening(label, np.ones((2, 2, 2)))
        thin_share = 1 - thicker_than_a_voxel.sum() / label.sum()
        assert 0.15 < thin_share < 0.6
        assert binary_opening(label, np.ones((4, 4, 3))).any()


def test_lung_looks_like_ct(phantoms):
    for image, label, _ in phantoms["vessels"]:
        assert image.shape == (1, 96, 96, 48)
        assert image.min() >= -1024
        assert -920 < np.median(image[0][label == 0]) < -760


def best_threshold_dice(channel: np.ndarray, region: np.ndarray) -> float:
    """The Dice of the best mask `channel >= t` over every t, chosen with the label in hand."""
    brightest_first = np.argsort(-channel.ravel(), kind="stable")
    true_positives = np.cumsum(region.ravel()[brightest_first])
    mask_sizes = np.arange(1, region.size + 1)
    dice = 2 * true_positives / (mask_sizes + region.sum())
    return float(dice.max())


@pytest.mark.parametrize("task", TASKS)
def test_no_threshold_solves_most_subjects(task, phantoms):
    best_scores = []
    for image, label, _ in phantoms[task]:
        scores = []
        for channel in image:
            scores.append(best_threshold_dice(channel, label > 0))
            scores.append(best_threshold_dice(-channel, label > 0))
        best_scores.append(max(scores))
    assert np.median(best_scores) < 0.6


def test_refuses_a_folder_that_is_not_empty(tmp_path):
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(UserError, match=f"{tmp_path.name} is not empty: .*another"):
        write_phantoms("vessels", tmp_path)


def test_refuses_fewer_than_three_subjects(tmp_path):
    with pytest.raises(UserError, match="at least 3 subjects"):
        write_phantoms("vessels", tmp_path / "new", subjects=2)
    assert not (tmp_path / "new").exists()
