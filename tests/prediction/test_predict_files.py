"""`segpl predict`: several scans, some of which are bad and some were predicted before."""

import csv
import errno
import gzip
import json
import shutil

import nibabel
import numpy as np
import pytest
import SimpleITK
from folder_in_use import folder_in_use
from PIL import Image

from segpl.data import saving
from segpl.foundation.errors import UserError
from segpl.foundation.locks import LOCK_FILE
from segpl.inference.numbers import RegionNumbers
from segpl.inference.predictor import Predictor
from segpl.prediction import predict_files
from segpl.prediction.request import Request
from segpl.prediction.table import CaseTable
from segpl.rundir import WEIGHTS_FILE

AFFINE = np.diag([-0.9, 0.9, 3.0, 1.0])
NAN = float("nan")


def write_scan(file, shape=(32, 36, 2, 4), seed=0):
    file.parent.mkdir(parents=True, exist_ok=True)
    voxels = np.random.default_rng(seed).integers(0, 500, shape).astype(np.int16)
    nibabel.save(nibabel.Nifti1Image(voxels, AFFINE), file)
    return file


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scans")
    for number in range(3):
        write_scan(folder / f"scan{number}.nii.gz", seed=number)
    return folder


def read_rows(file):
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def file_names(folder):
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != LOCK_FILE]
    return sorted(str(file.relative_to(folder)) for file in files)


def test_a_folder_of_scans_gives_masks_in_their_geometry(run_directory, scans, tmp_path):
    predict_files(run_directory, [scans], Request(tmp_path))
    masks = ["scan0.nii.gz", "scan1.nii.gz", "scan2.nii.gz"]
    pictures = ["pictures/scan0.png", "pictures/scan1.png", "pictures/scan2.png"]
    others = ["cases.csv", "colours.ctbl", *pictures, "prediction.json"]
    assert file_names(tmp_path) == [*others, *masks]
    mask = nibabel.load(tmp_path / "scan1.nii.gz")
    assert mask.shape == (32, 36, 2)
    np.testing.assert_array_equal(mask.affine, nibabel.load(scans / "scan1.nii.gz").affine)


def test_the_table_has_the_volumes_of_each_region(run_directory, scans, tmp_path):
    table = predict_files(run_directory, [scans], Request(tmp_path))
    rows = read_rows(table)
    regions = ["whole tumour", "tumour core", "enhancing core"]
    assert [row["region"] for row in rows] == 3 * regions
    assert [row["case"] for row in rows[:4]] == ["scan0", "scan0", "scan0", "scan1"]

    row = rows[5]
    volume = float(row["volume_ml"])
    assert float(row["volume_low_ml"]) <= volume <= float(row["volume_high_ml"])
    mask = np.asarray(nibabel.load(tmp_path / "scan1.nii.gz").dataobj)
    innermost_ml = (mask == 3).sum() * 0.9 * 0.9 * 3 / 1000
    assert volume == pytest.approx(innermost_ml, rel=1e-5)


def test_with_samples_maps_are_written(run_directory, scans, tmp_path):
    predict_files(run_directory, [scans / "scan0.nii.gz"], Request(tmp_path, samples=2))
    for name in ("probability", "uncertainty", "variance"):
        assert nibabel.load(tmp_path / name / "scan0.nii.gz").shape == (32, 36, 2, 3)
    assert float(read_rows(tmp_path / "cases.csv")[0]["variance"]) > 0


def test_probabilities_are_added_to_a_mask_that_exists(run_directory, scans, tmp_path):
    scan = [scans / "scan0.nii.gz"]
    predict_files(run_directory, scan, Request(tmp_path))
    predict_files(run_directory, scan, Request(tmp_path, probabilities=True))
    assert (tmp_path / "probability/scan0.nii.gz").is_file()
    assert not (tmp_path / "variance").exists()


def test_a_scan_that_was_predicted_before_is_skipped(run_directory, scans, tmp_path, capsys):
    predict_files(run_directory, [scans / "scan0.nii.gz"], Request(tmp_path))
    before = (tmp_path / "scan0.nii.gz").stat().st_mtime_ns
    predict_files(run_directory, [scans], Request(tmp_path))
    assert (tmp_path / "scan0.nii.gz").stat().st_mtime_ns == before
    assert "1 of 3 scans were predicted before" in capsys.readouterr().err
    assert len(read_rows(tmp_path / "cases.csv")) == 9, "the rows of the first call are kept"


@pytest.mark.parametrize("bytes_left", [0, 100, -4], ids=["empty", "cut", "end missing"])
@pytest.mark.parametrize("name", ["scan1.nii.gz", "probability/scan1.nii.gz"])
def test_a_damaged_mask_or_map_is_written_again(run_directory, scans, tmp_path, name, bytes_left):
    request = Request(tmp_path, probabilities=True)
    predict_files(run_directory, [scans], request)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[:bytes_left])
    predict_files(run_directory, [scans], request)
    assert gzip.decompress((tmp_path / name).read_bytes()) == gzip.decompress(content)


def test_a_second_command_does_not_write_to_a_folder_in_use(run_directory, scans, tmp_path):
    message = "is in use by another segpl command"
    with folder_in_use(tmp_path), pytest.raises(UserError, match=message):
        predict_files(run_directory, [scans], Request(tmp_path))
    assert not list(tmp_path.glob("*.nii.gz"))


def test_a_folder_holds_predictions_with_one_number_of_samples(run_directory, scans, tmp_path):
    out = tmp_path / "out"
    predict_files(run_directory, [scans / "scan0.nii.gz"], Request(out))
    message = "out holds predictions of another run, or with other samples .*: choose another"
    with pytest.raises(UserError, match=message):
        predict_files(run_directory, [scans], Request(out, samples=2))


def test_a_folder_holds_predictions_of_one_run(run_directory, scans, tmp_path):
    out = tmp_path / "out"
    predict_files(run_directory, [scans / "scan0.nii.gz"], Request(out))
    other_run = shutil.copytree(run_directory, tmp_path / "other")
    with (other_run / WEIGHTS_FILE).open("r+b") as weights:
        weights.seek(-4, 2)
        weights.write(np.float32(0.5).tobytes())
    with pytest.raises(UserError, match="another run"):
        predict_files(other_run, [scans], Request(out))


def test_a_mask_is_never_taken_for_that_of_another_scan_of_the_same_name(run_directory, tmp_path):
    out = tmp_path / "out"
    write_scan(tmp_path / "anna/T1.nii.gz")
    write_scan(tmp_path / "bert/T1.nii.gz", (36, 36, 2, 4))
    predict_files(run_directory, [tmp_path / "anna"], Request(out))
    before = (out / "T1.nii.gz").read_bytes()
    message = r"out/T1\.nii\.gz exists and is not the mask of .*bert/T1\.nii\.gz: choose"
    with pytest.raises(UserError, match=message):
        predict_files(run_directory, [tmp_path / "bert"], Request(out))
    assert (out / "T1.nii.gz").read_bytes() == before


def test_a_scan_that_has_changed_is_predicted_again(run_directory, tmp_path):
    scan = write_scan(tmp_path / "scans/T1.nii.gz")
    predict_files(run_directory, [scan], Request(tmp_path / "out"))
    write_scan(scan, (36, 36, 2, 4))
    predict_files(run_directory, [scan], Request(tmp_path / "out"))
    assert nibabel.load(tmp_path / "out/T1.nii.gz").shape == (36, 36, 2)


def test_a_label_that_someone_drew_is_never_replaced(run_directory, tmp_path):
    scan = write_scan(tmp_path / "scans/T1.nii.gz")
    write_scan(tmp_path / "labels/T1.nii.gz", (32, 36, 2))
    with pytest.raises(UserError, match=r"labels/T1\.nii\.gz exists and is not the mask"):
        predict_files(run_directory, [scan], Request(tmp_path / "labels"))


def test_masks_never_replace_their_scans(run_directory, tmp_path):
    scan = write_scan(tmp_path / "scan.nii.gz")
    before = scan.read_bytes()
    message = r"scan\.nii\.gz would be overwritten by its mask: choose another --out"
    with pytest.raises(UserError, match=message):
        predict_files(run_directory, [scan], Request(tmp_path))
    assert scan.read_bytes() == before
    assert file_names(tmp_path) == ["scan.nii.gz"]


def test_when_all_scans_fail_the_error_mentions_no_others(run_directory, tmp_path):
    folder = tmp_path / "scans"
    folder.mkdir()
    for number in range(2):
        (folder / f"corrupt{number}.nii.gz").write_bytes(b"no image")
    with pytest.raises(UserError) as caught:
        predict_files(run_directory, [folder], Request(tmp_path / "out"))
    summary, *sentences = str(caught.value).splitlines()
    assert summary == "all 2 scans failed:"
    assert len(sentences) == 2


def test_bad_scans_among_ten_are_named_and_the_others_written(run_directory, tmp_path):
    folder = tmp_path / "scans"
    out = tmp_path / "out"
    good = [f"good{number}.nii.gz" for number in range(6)]
    for seed, name in enumerate(good):
        write_scan(folder / name, seed=seed)
    (folder / "corrupt.nii.gz").write_bytes(b"no image")
    (folder / "cut.nii.gz").write_bytes((folder / "good0.nii.gz").read_bytes()[:2000])
    write_scan(folder / "narrow.nii.gz", (32, 36, 2, 3))
    write_scan(folder / "side_0000.nii.gz", (1, 36, 8, 4))
    with pytest.raises(UserError) as caught:
        predict_files(run_directory, [folder], Request(out))
    summary, *sentences = str(caught.value).splitlines()
    assert summary.startswith("4 of 10 scans failed, the others are in")
    problems = [
        "corrupt.nii.gz cannot be read",
        "cut.nii.gz cannot be read",
        "narrow.nii.gz has 3 channels, but the task has 4",
        "side_0000.nii.gz is a slice seen from the side",
    ]
    for sentence, problem in zip(sentences, problems, strict=True):
        assert problem in sentence
    pictures = [f"pictures/{name.replace('.nii.gz', '.png')}" for name in good]
    others = ["cases.csv", "colours.ctbl", *pictures, "prediction.json"]
    assert file_names(out) == sorted([*good, *others])
    assert len(read_rows(out / "cases.csv")) == 18


def test_the_error_of_a_single_scan_is_one_sentence(run_directory, tmp_path):
    message = r"^\S*gone\.nii\.gz does not exist: correct the path or put the file there\.$"
    with pytest.raises(UserError, match=message):
        predict_files(run_directory, [tmp_path / "gone.nii.gz"], Request(tmp_path / "out"))


def test_a_folder_without_scans_is_refused(run_directory, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty holds no image"):
        predict_files(run_directory, [tmp_path / "empty"], Request(tmp_path / "out"))


@pytest.fixture
def full_disk(monkeypatch):
    """The disk is full when the mask of scan1 is written."""
    save = nibabel.save

    def save_or_fail(image, file):
        if "scan1" in file.name:
            file.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        save(image, file)

    monkeypatch.setattr(saving.nibabel, "save", save_or_fail)


def test_a_full_disk_leaves_no_half_written_mask(
    run_directory, scans, tmp_path, full_disk, monkeypatch
):
    message = r"1 of 3 scans failed.*\n.*scan1\.nii\.gz cannot be written \(No space left"
    with pytest.raises(UserError, match=message):
        predict_files(run_directory, [scans], Request(tmp_path))
    masks = [name for name in file_names(tmp_path) if name.endswith(".nii.gz")]
    assert masks == ["scan0.nii.gz", "scan2.nii.gz"]
    monkeypatch.undo()
    predict_files(run_directory, [scans], Request(tmp_path))
    assert (tmp_path / "scan1.nii.gz").is_file(), "what failed is done once there is room"


def test_a_path_that_cannot_be_written_is_refused_before_the_work(
    run_directory, scans, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr("segpl.prediction.files.run_pipeline", lambda *_: pytest.fail("too late"))
    message = r"file/out cannot be written \(Not a directory\)"
    with pytest.raises(UserError, match=message):
        predict_files(run_directory, [scans], Request(tmp_path / "file/out"))


def test_a_scan_that_is_too_large_does_not_stop_the_others(
    run_directory, scans, tmp_path, monkeypatch
):
    prepare = Predictor.prepare

    def prepare_or_fail(predictor, scan):
        if scan.case.name == "scan0":
            raise MemoryError
        return prepare(predictor, scan)

    monkeypatch.setattr(Predictor, "prepare", prepare_or_fail)
    message = r"scan0\.nii\.gz is too large for the memory of this machine: crop it"
    with pytest.raises(UserError, match=message):
        predict_files(run_directory, [scans], Request(tmp_path))
    assert (tmp_path / "scan2.nii.gz").is_file()


@pytest.fixture
def itk_image(tmp_path):
    """An image of four channels with unusual axes, saved as scans/mha.mha and scans/nrrd.nrrd."""
    voxels = np.random.default_rng(0).integers(0, 500, (2, 36, 32, 4)).astype(np.int16)
    image = SimpleITK.GetImageFromArray(voxels, isVector=True)
    image.SetSpacing((0.9, 0.9, 3))
    image.SetDirection((0, 1, 0, 1, 0, 0, 0, 0, -1))
    (tmp_path / "scans").mkdir()
    for ending in ("mha", "nrrd"):
        SimpleITK.WriteImage(image, str(tmp_path / f"scans/{ending}.{ending}"))
    return image


def test_masks_can_have_the_format_of_the_scan(run_directory, itk_image, tmp_path):
    predict_files(run_directory, [tmp_path / "scans"], Request(tmp_path / "out", format="same"))
    mha = SimpleITK.ReadImage(str(tmp_path / "out/mha.mha"))
    nrrd = SimpleITK.ReadImage(str(tmp_path / "out/nrrd.nrrd"))
    for mask in (mha, nrrd):
        assert mask.GetSize() == itk_image.GetSize()
        np.testing.assert_allclose(mask.GetDirection(), itk_image.GetDirection())
        np.testing.assert_allclose(mask.GetSpacing(), itk_image.GetSpacing())
    np.testing.assert_array_equal(
        SimpleITK.GetArrayFromImage(mha), SimpleITK.GetArrayFromImage(nrrd)
    )


@pytest.mark.usefixtures("itk_image")
def test_a_mask_in_the_format_of_the_scan_is_found_again(run_directory, tmp_path, capsys):
    for _ in range(2):
        scan = [tmp_path / "scans/mha.mha"]
        predict_files(run_directory, scan, Request(tmp_path / "out", format="same"))
    assert "1 of 1 scans were predicted before" in capsys.readouterr().err


@pytest.mark.usefixtures("itk_image")
def test_a_mask_in_another_format_is_not_the_requested_one(run_directory, tmp_path):
    scan = [tmp_path / "scans/mha.mha"]
    predict_files(run_directory, scan, Request(tmp_path / "out"))
    predict_files(run_directory, scan, Request(tmp_path / "out", format="same"))
    assert (tmp_path / "out/mha.mha").exists()


def test_the_mask_of_a_picture_is_a_picture(save_run, tmp_path):
    """A network of four channels takes four grey pictures."""
    for channel in range(4):
        grey = np.random.default_rng(channel).integers(0, 255, (36, 40)).astype(np.uint8)
        Image.fromarray(grey).save(tmp_path / f"eye_000{channel}.tif")
    predict_files(save_run(), [tmp_path], Request(tmp_path / "out", format="same"))
    assert np.asarray(Image.open(tmp_path / "out/eye.png")).shape == (36, 40)


def test_undefined_numbers_stay_empty(tmp_path):
    table = CaseTable(tmp_path / "cases.csv")
    table.add("a", {"lesion": RegionNumbers(0.0, 0.0, 1.25, NAN, NAN, NAN)}, None)
    (row,) = read_rows(table.file)
    assert row["volume_high_ml"] == "1.25"
    assert row["expected_dice"] == row["uncertainty"] == row["variance"] == ""


def test_rows_and_names_survive_another_call(tmp_path):
    numbers = {"007": RegionNumbers(1.0, 0.5, 1.25, 0.9, 0.1, NAN)}
    CaseTable(tmp_path / "cases.csv").add('a, "b"', numbers, None)
    CaseTable(tmp_path / "cases.csv").add("c", numbers, None)
    rows = read_rows(tmp_path / "cases.csv")
    assert [row["case"] for row in rows] == ['a, "b"', "c"]
    assert [row["region"] for row in rows] == ["007", "007"]
    assert [row["expected_dice"] for row in rows] == ["0.9", "0.9"]


def test_the_settings_are_beside_the_masks(run_directory, scans, tmp_path):
    predict_files(run_directory, [scans / "scan0.nii.gz"], Request(tmp_path, temperature=1.5))
    settings = json.loads((tmp_path / "prediction.json").read_text(encoding="utf-8"))
    assert settings["temperature"] == 1.5
    assert settings["samples"] == 1
