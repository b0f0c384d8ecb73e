"""`segpl doctor` finds what is wrong, says it once in plain words, and writes a repaired copy."""

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
    reorient_a_case,
)
from PIL import Image

from segpl.cli import main
from segpl.data.layouts import read_dataset
from segpl.diagnosis import examine

RAS_TO_ASR = np.array([[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1.0]])
"""Makes sagittal series of axial ones: the axes then point anterior, superior and right."""
IMAGE_AND_LABEL = ("imagesTr/tumour_001_0002.nii.gz", "labelsTr/tumour_001.nii.gz")


@pytest.fixture
def folder(tumours, tmp_path):
    return shutil.copytree(tumours, tmp_path / "data")


@pytest.fixture
def doctor(monkeypatch, capsys):
    """Calls segpl doctor; returns exit code, standard output and standard error."""

    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["segpl", "doctor", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code
        output = capsys.readouterr()
        return code, output.out, output.err

    return call


def contents(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_good_folder_is_described(folder, doctor):
    code, output, _ = doctor(folder)
    assert code == 0
    assert "nnU-Net" in output
    assert "2 labelled, 2 unlabelled" in output
    assert "64 x 64 x 12" in output
    assert "2 x 2 x 6 mm" in output
    assert "label values" in output
    assert "no problem found" in output


def test_a_training_on_a_good_folder_is_planned_and_timed(folder, doctor):
    _, output, _ = doctor(folder)
    assert "segpl train would use patch: [64, 64] (2D: slices are 6 mm apart" in output
    assert "one step of segpl-em takes about" in output


BROKEN_DATA = []
for mistake, arguments, sentence in MISTAKES:
    if mistake is not break_nothing and not arguments:
        BROKEN_DATA.append((mistake, sentence))


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    BROKEN_DATA + WEAKNESSES,
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_problem_is_named_and_nothing_is_written(mistake, sentence, folder, doctor):
    mistake(folder)
    before = contents(folder)
    code, output, error = doctor(folder)
    assert code == 2
    assert sentence.replace("has no training image", "has no") in output
    assert "Traceback" not in output + error
    assert contents(folder) == before


def test_at_least_25_mistakes_are_tested():
    mistakes = {mistake for mistake, _ in BROKEN_DATA + WEAKNESSES}
    assert len(mistakes) >= 25


def test_all_problems_are_listed_at_once(folder, doctor):
    for mistake in (empty_a_label, garble_an_image, copy_an_image):
        mistake(folder)
    code, output, _ = doctor(folder, "--json")
    assert code == 2
    assert len(json.loads(output)["problems"]) == 3


def test_fix_writes_a_copy_without_problems_and_leaves_the_original(folder, doctor, tmp_path):
    for mistake in (reorient_a_case, empty_a_label, copy_an_image):
        mistake(folder)
    before = contents(folder)
    code, _, _ = doctor(folder, "--fix", tmp_path / "fixed")
    assert code == 2
    assert contents(folder) == before
    fixed = examine(tmp_path / "fixed")
    assert not fixed.problems
    training = fixed.dataset.training
    names = {case.name for case in training}
    assert names == {"tumour_000", "tumour_001", "again", "tumour_003"}
    assert [case.name for case in training if case.label] == ["tumour_001"]
    assert fixed.dataset.task == read_dataset(folder).task


def copy_case(folder, name, copy):
    for file in folder.glob(f"*Tr/{name}*"):
        shutil.copy(file, file.with_name(file.name.replace(name, copy)))


def fill_label(folder, name, value):
    scan = nibabel.load(folder / f"labelsTr/{name}.nii.gz")
    filled = np.full(scan.shape, value, np.uint8)
    nibabel.save(nibabel.Nifti1Image(filled, scan.affine), scan.get_filename())


def test_fix_leaves_out_a_copy_of_a_labelled_case_and_says_so(folder, doctor, tmp_path):
    copy_case(folder, "tumour_000", "again")
    _, _, error = doctor(folder, "--fix", tmp_path / "fixed")
    assert "labelled case tumour_000 is left out: its image is the same as that of case" in error


def test_fix_writes_nothing_rather_than_lose_a_label(folder, doctor, tmp_path):
    fill_label(folder, "tumour_001", 9)
    code, _, error = doctor(folder, "--fix", tmp_path / "fixed")
    assert code == 2
    assert "--fix leaves out no labelled case" in error
    assert "labelled case tumour_001: " in error
    assert "has label values 9" in error
    assert not (tmp_path / "fixed").exists()


def test_fix_does_not_choose_between_two_labels_of_one_image(folder, doctor, tmp_path):
    copy_case(folder, "tumour_000", "again")
    fill_label(folder, "again", 1)
    _, _, error = doctor(folder, "--fix", tmp_path / "fixed")
    assert "but the labels differ" in error
    assert not (tmp_path / "fixed").exists()


def test_fix_says_that_it_drops_an_empty_label(folder, doctor, tmp_path):
    empty_a_label(folder)
    _, _, error = doctor(folder, "--fix", tmp_path / "fixed")
    assert "is written without its label: " in error


def test_pictures_have_no_known_spacing_and_are_not_reoriented(doctor, tmp_path):
    random = np.random.default_rng(0)
    for kind in ("images", "labels"):
        (tmp_path / "data" / kind).mkdir(parents=True)
    for name in ("a", "b"):
        image = random.integers(0, 200, (40, 30)).astype(np.uint8)
        Image.fromarray(image).save(tmp_path / "data/images" / f"{name}.png")
        Image.fromarray(255 * (image > 150).astype(np.uint8)).save(
            tmp_path / "data/labels" / f"{name}.png"
        )
    _, output, _ = doctor(tmp_path / "data", "--json", "--fix", tmp_path / "fixed")
    facts = json.loads(output)["facts"]
    assert facts["spacing"].startswith("unknown")
    assert facts["orientation"] == "unknown"
    fixed = nibabel.load(tmp_path / "fixed/imagesTr/b_0000.nii.gz")
    assert np.array_equal(np.asarray(fixed.dataobj)[..., 0], image.T)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float16", "bool"])
def test_fix_keeps_the_values_of_every_data_type(dtype, doctor, tmp_path):
    largest = 2 if dtype == "bool" else 900
    values = np.random.default_rng(0).integers(0, largest, (2, 16, 16, 3)).astype(dtype)
    if dtype == "int64":
        values[0, 0, 0, 0] = 2**40  # more than 32 bits hold
    for name, image in zip("ab", values, strict=True):
        np.save(tmp_path / f"{name}.npy", image)
    np.save(tmp_path / "label.npy", values[0] > values[0].mean())
    (tmp_path / "list.csv").write_text("case,image,label\na,a.npy,label.npy\nb,b.npy,\n")
    doctor(tmp_path / "list.csv", "--fix", tmp_path / "fixed")
    files = sorted((tmp_path / "fixed/imagesTr").iterdir())
    assert len(files) == 2
    for file, image in zip(files, values, strict=True):
        assert (np.asarray(nibabel.load(file).dataobj) == image).all()


@pytest.fixture
def manifest(folder):
    """A list of cases whose names contain a slash: two of training, one of test."""
    channels = [f"c{channel}" for channel in range(4)]
    rows = [["case", "subject", *channels, "label", "split"]]
    for number, split, ending in (
        ("000", "train", "Tr"),
        ("001", "train", "Tr"),
        ("004", "test", "Ts"),
    ):
        stem = f"tumour_{number}"
        images = [f"images{ending}/{stem}_{channel:04}.nii.gz" for channel in range(4)]
        label = f"labels{ending}/{stem}.nii.gz"
        rows.append([f"a/{number}", f"s{number}", *images, label, split])
    lines = [",".join(row) for row in rows]
    file = folder / "list.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_fix_keeps_the_subjects_of_cases_whose_names_are_no_file_names(manifest, doctor, tmp_path):
    doctor(manifest, "--fix", tmp_path / "fixed")
    fixed = read_dataset(tmp_path / "fixed")
    assert [case.subject for case in fixed.training] == ["s000", "s001"]


def test_fix_counts_training_cases_alone(manifest, doctor, tmp_path):
    doctor(manifest, "--fix", tmp_path / "fixed")
    description = json.loads((tmp_path / "fixed/dataset.json").read_text())
    assert description["numTraining"] == 2


def test_reorienting_moves_voxels_and_changes_none(folder, tumours, doctor, tmp_path):
    reorient_a_case(folder)
    doctor(folder, "--fix", tmp_path / "fixed")
    for name in IMAGE_AND_LABEL:
        fixed = nibabel.load(tmp_path / "fixed" / name)
        original = nibabel.load(tumours / name)
        assert np.array_equal(fixed.dataobj, original.dataobj)
        assert np.allclose(fixed.affine, original.affine)


def test_a_fixed_copy_keeps_the_orientation_of_most_images(folder, doctor, tmp_path):
    """The slices of sagittal series are their last axis. In RAS they would be the first."""
    for file in [*folder.glob("images*/*.nii.gz"), *folder.glob("labels*/*.nii.gz")]:
        image = nibabel.load(file)
        values = np.asanyarray(image.dataobj)
        nibabel.save(nibabel.Nifti1Image(values, RAS_TO_ASR @ image.affine), file)
    doctor(folder, "--fix", tmp_path / "fixed")
    for name in IMAGE_AND_LABEL:
        fixed = nibabel.load(tmp_path / "fixed" / name)
        original = nibabel.load(folder / name)
        assert nibabel.aff2axcodes(fixed.affine) == ("A", "S", "R")
        assert np.array_equal(fixed.dataobj, original.dataobj)


def test_fix_does_not_write_into_a_full_folder(folder, doctor):
    code, _, error = doctor(folder, "--fix", folder)
    assert code == 2
    assert "is not empty" in error
