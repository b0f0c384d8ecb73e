"""The doctor finds what is wrong, says it once in plain words, and mends a copy."""

import json
import shutil

import nibabel
import numpy as np
import pytest
from mistakes import (
    MISTAKES,
    WEAKNESSES,
    break_nothing,
    copy_an_image,
    empty_a_label,
    garble_an_image,
    turn_a_case,
)

from segpl.cli import main
from segpl.data.layouts import read_dataset
from segpl.diagnosis import examine

SAGITTAL = np.array([[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1.0]])
"""Turns axes that point right, anterior, superior to anterior, superior, right."""


@pytest.fixture
def folder(tumours, tmp_path):
    return shutil.copytree(tumours, tmp_path / "data")


@pytest.fixture
def doctor(monkeypatch, capsys):
    """Calls segpl doctor; returns exit code, standard output and standard error."""

    def call(*words):
        monkeypatch.setattr("sys.argv", ["segpl", "doctor", *map(str, words)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code
        return code, *capsys.readouterr()

    return call


def contents(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_good_folder_is_described_and_planned(folder, doctor):
    code, said, _ = doctor(folder)
    assert code == 0
    for words in (
        "nnU-Net",
        "2 labelled, 2 unlabelled",
        "64 x 64 x 12",
        "2 x 2 x 6 mm",
        "label values",
        "no problem found",
    ):
        assert words in said
    assert "segpl train would use patch: [64, 64] (2D: slices are 6 mm apart" in said
    assert "one step of segpl-em takes about" in said


BROKEN = [
    (mistake, sentence)
    for mistake, words, sentence in MISTAKES
    if mistake is not break_nothing and not words
]


@pytest.mark.parametrize(
    ("mistake", "sentence"), BROKEN + WEAKNESSES, ids=lambda value: getattr(value, "__name__", "")
)
def test_every_problem_is_named_and_nothing_is_written(mistake, sentence, folder, doctor):
    mistake(folder)
    before = contents(folder)
    code, said, complaint = doctor(folder)
    assert code == 2
    assert sentence.replace("has no training image", "has no") in said
    assert "Traceback" not in said + complaint
    assert contents(folder) == before


def test_at_least_25_ways_to_be_wrong_are_tested():
    assert len({mistake for mistake, _ in BROKEN + WEAKNESSES}) >= 25


def test_all_problems_are_listed_at_once(folder, doctor):
    for mistake in (empty_a_label, garble_an_image, copy_an_image):
        mistake(folder)
    code, said, _ = doctor(folder, "--json")
    assert code == 2
    assert len(json.loads(said)["problems"]) == 3


def test_fix_writes_a_copy_that_is_sound_and_leaves_the_original(folder, doctor, tmp_path):
    for mistake in (turn_a_case, empty_a_label, copy_an_image):
        mistake(folder)
    before = contents(folder)
    code, _, _ = doctor(folder, "--fix", tmp_path / "fixed")
    assert code == 2
    assert contents(folder) == before
    mended = examine(tmp_path / "fixed")
    assert not mended.problems
    assert {case.name for case in mended.dataset.training} == {
        "tumour_000",
        "tumour_001",
        "again",
        "tumour_003",
    }
    assert [case.name for case in mended.dataset.training if case.label] == ["tumour_001"]
    assert mended.dataset.task == read_dataset(folder).task


@pytest.mark.parametrize("kind", ["int64", "uint64", "float16", "bool"])
def test_fix_writes_every_kind_of_number_that_is_read(kind, doctor, tmp_path):
    values = (
        np.random.default_rng(0)
        .integers(0, 2 if kind == "bool" else 900, (2, 16, 16, 3))
        .astype(kind)
    )
    if kind == "int64":
        values[0, 0, 0, 0] = 2**40  # more than 32 bits hold
    for name, image in zip("ab", values, strict=True):
        np.save(tmp_path / f"{name}.npy", image)
    np.save(tmp_path / "label.npy", values[0] > values[0].mean())
    (tmp_path / "list.csv").write_text("case,image,label\na,a.npy,label.npy\nb,b.npy,\n")
    doctor(tmp_path / "list.csv", "--fix", tmp_path / "fixed")
    found = sorted((tmp_path / "fixed/imagesTr").iterdir())
    assert len(found) == 2
    for file, image in zip(found, values, strict=True):
        assert (np.asarray(nibabel.load(file).dataobj) == image).all()


def test_fix_writes_strange_names_where_they_are_found_again(folder, doctor, tmp_path):
    """A manifest may call a case a/b, which is no file; and of training cases alone `numTraining` speaks."""
    channels = sorted((folder / "imagesTr").glob("tumour_000_*"))
    header = ["case", "subject", *(f"c{place}" for place in range(len(channels))), "label", "split"]
    rows = [header]
    for number, part in (("000", "train"), ("001", "train"), ("004", "test")):
        kind = "Ts" if part == "test" else "Tr"
        images = [
            f"images{kind}/tumour_{number}_{place:04}.nii.gz" for place in range(len(channels))
        ]
        rows.append(
            [f"a/{number}", f"s{number}", *images, f"labels{kind}/tumour_{number}.nii.gz", part]
        )
    (folder / "list.csv").write_text("\n".join(",".join(row) for row in rows) + "\n")
    doctor(folder / "list.csv", "--fix", tmp_path / "fixed")
    mended = read_dataset(tmp_path / "fixed")
    assert [case.subject for case in mended.training] == ["s000", "s001"]
    assert json.loads((tmp_path / "fixed/dataset.json").read_text())["numTraining"] == 2


def test_reorienting_moves_voxels_and_changes_none(folder, tumours, doctor, tmp_path):
    turn_a_case(folder)
    doctor(folder, "--fix", tmp_path / "fixed")
    for name in ("imagesTr/tumour_001_0002.nii.gz", "labelsTr/tumour_001.nii.gz"):
        mended, original = nibabel.load(tmp_path / "fixed" / name), nibabel.load(tumours / name)
        assert np.array_equal(mended.dataobj, original.dataobj)
        assert np.allclose(mended.affine, original.affine)


def test_a_fixed_copy_keeps_the_axes_of_most(folder, doctor, tmp_path):
    """Slices of sagittal series are their last axis and stay it: in RAS they would be the first."""
    for file in [*folder.glob("images*/*.nii.gz"), *folder.glob("labels*/*.nii.gz")]:
        image = nibabel.load(file)
        nibabel.save(
            nibabel.Nifti1Image(np.asanyarray(image.dataobj), SAGITTAL @ image.affine), file
        )
    doctor(folder, "--fix", tmp_path / "fixed")
    for name in ("imagesTr/tumour_001_0002.nii.gz", "labelsTr/tumour_001.nii.gz"):
        mended, original = nibabel.load(tmp_path / "fixed" / name), nibabel.load(folder / name)
        assert nibabel.aff2axcodes(mended.affine) == ("A", "S", "R")
        assert np.array_equal(mended.dataobj, original.dataobj)


def test_fix_does_not_write_into_a_full_folder(folder, doctor):
    code, _, complaint = doctor(folder, "--fix", folder)
    assert code == 2
    assert "is not empty" in complaint
