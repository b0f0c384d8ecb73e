"""The command's work: many scans, some of them bad, some done before."""

import csv
import errno
import json
import shutil

import nibabel
import numpy as np
import pytest
import SimpleITK
from PIL import Image

from segpl.data import saving
from segpl.foundation.errors import UserError
from segpl.inference.numbers import Numbers
from segpl.inference.predictor import Predictor
from segpl.prediction import predict_files
from segpl.prediction.orders import Order
from segpl.prediction.table import Table
from segpl.rundir import WEIGHTS_FILE

AFFINE = np.diag([-0.9, 0.9, 3.0, 1.0])


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


def rows(file):
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def names(folder):
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_masks_and_numbers_of_a_folder(run_directory, scans, tmp_path):
    table = predict_files(run_directory, [scans], Order(tmp_path))
    assert names(tmp_path) == [
        "cases.csv",
        "prediction.json",
        "scan0.nii.gz",
        "scan1.nii.gz",
        "scan2.nii.gz",
    ]
    mask = nibabel.load(tmp_path / "scan1.nii.gz")
    assert mask.shape == (32, 36, 2)
    np.testing.assert_array_equal(mask.affine, nibabel.load(scans / "scan1.nii.gz").affine)
    found = rows(table)
    assert [(row["case"], row["region"]) for row in found[:4]] == [
        ("scan0", "whole tumour"),
        ("scan0", "tumour core"),
        ("scan0", "enhancing core"),
        ("scan1", "whole tumour"),
    ]
    low, volume, high = (float(found[5][f"volume_{key}"]) for key in ("low_ml", "ml", "high_ml"))
    assert low <= volume <= high
    innermost = (np.asarray(mask.dataobj) == 3).sum() * 0.9 * 0.9 * 3 / 1000
    assert volume == pytest.approx(innermost, rel=1e-5)


def test_samples_bring_maps(run_directory, scans, tmp_path):
    predict_files(run_directory, [scans / "scan0.nii.gz"], Order(tmp_path, samples=2))
    for kind in ("probability", "uncertainty", "variance"):
        assert nibabel.load(tmp_path / kind / "scan0.nii.gz").shape == (32, 36, 2, 3)
    assert float(rows(tmp_path / "cases.csv")[0]["variance"]) > 0


def test_probabilities_come_when_asked_for(run_directory, scans, tmp_path):
    predict_files(run_directory, [scans / "scan0.nii.gz"], Order(tmp_path))
    predict_files(run_directory, [scans / "scan0.nii.gz"], Order(tmp_path, probabilities=True))
    assert (tmp_path / "probability/scan0.nii.gz").is_file(), "although the mask was there"
    assert not (tmp_path / "variance").exists()


def test_what_is_there_is_left_alone(run_directory, scans, tmp_path, capsys):
    predict_files(run_directory, [scans / "scan0.nii.gz"], Order(tmp_path))
    before = (tmp_path / "scan0.nii.gz").stat().st_mtime_ns
    predict_files(run_directory, [scans], Order(tmp_path))
    assert (tmp_path / "scan0.nii.gz").stat().st_mtime_ns == before
    assert "1 of 3 scans were predicted before" in capsys.readouterr().err
    assert len(rows(tmp_path / "cases.csv")) == 9, "the numbers of the first call are kept"


def test_a_folder_holds_predictions_of_one_run(run_directory, scans, tmp_path):
    predict_files(run_directory, [scans / "scan0.nii.gz"], Order(tmp_path / "out"))
    with pytest.raises(
        UserError, match=r"out holds predictions of another run, or other samples: choose another"
    ):
        predict_files(run_directory, [scans], Order(tmp_path / "out", samples=2))
    other = shutil.copytree(run_directory, tmp_path / "other")
    with (other / WEIGHTS_FILE).open("r+b") as weights:
        weights.seek(-4, 2)
        weights.write(np.float32(0.5).tobytes())
    with pytest.raises(UserError, match="another run"):
        predict_files(other, [scans], Order(tmp_path / "out"))


def test_a_mask_is_never_taken_for_that_of_another_scan(run_directory, tmp_path):
    """Two patients whose files have one name; then a scan that was exported anew."""
    for who, size in (("anna", 0), ("bert", 4)):
        (tmp_path / who).mkdir()
        write_scan(tmp_path / who / "T1.nii.gz", (32 + size, 36, 2, 4))
    predict_files(run_directory, [tmp_path / "anna"], Order(tmp_path / "out"))
    before = (tmp_path / "out/T1.nii.gz").read_bytes()
    with pytest.raises(
        UserError, match=r"out/T1\.nii\.gz exists and is not the mask of .*bert/T1\.nii\.gz: choose"
    ):
        predict_files(run_directory, [tmp_path / "bert"], Order(tmp_path / "out"))
    assert (tmp_path / "out/T1.nii.gz").read_bytes() == before
    shutil.copy(tmp_path / "bert/T1.nii.gz", tmp_path / "anna/T1.nii.gz")
    predict_files(run_directory, [tmp_path / "anna"], Order(tmp_path / "out"))
    assert nibabel.load(tmp_path / "out/T1.nii.gz").shape == (36, 36, 2)
    (tmp_path / "labels").mkdir()
    shutil.copy(tmp_path / "out/T1.nii.gz", tmp_path / "labels")
    with pytest.raises(UserError, match=r"labels/T1\.nii\.gz exists and is not the mask"):
        predict_files(run_directory, [tmp_path / "anna"], Order(tmp_path / "labels"))


def test_masks_never_replace_their_scans(run_directory, tmp_path):
    scan = write_scan(tmp_path / "scan.nii.gz")
    before = scan.read_bytes()
    with pytest.raises(
        UserError, match=r"scan\.nii\.gz would be overwritten by its mask: choose another --out"
    ):
        predict_files(run_directory, [scan], Order(tmp_path))
    assert scan.read_bytes() == before
    assert names(tmp_path) == ["scan.nii.gz"]


def test_when_all_scans_fail_there_is_no_word_of_others(run_directory, tmp_path):
    folder = tmp_path / "scans"
    folder.mkdir()
    for number in range(2):
        (folder / f"corrupt{number}.nii.gz").write_bytes(b"no image")
    with pytest.raises(UserError) as caught:
        predict_files(run_directory, [folder], Order(tmp_path / "out"))
    first, *sentences = str(caught.value).splitlines()
    assert first == "all 2 scans failed:"
    assert len(sentences) == 2


def test_bad_scans_among_ten_are_named_and_the_others_written(run_directory, tmp_path):
    folder = tmp_path / "scans"
    for number in range(6):
        write_scan(folder / f"good{number}.nii.gz", seed=number)
    (folder / "corrupt.nii.gz").write_bytes(b"no image")
    (folder / "cut.nii.gz").write_bytes((folder / "good0.nii.gz").read_bytes()[:2000])
    write_scan(folder / "narrow.nii.gz", (32, 36, 2, 3))
    write_scan(folder / "side_0000.nii.gz", (1, 36, 8, 4))
    with pytest.raises(UserError) as caught:
        predict_files(run_directory, [folder], Order(tmp_path / "out"))
    first, *sentences = str(caught.value).splitlines()
    assert first.startswith("4 of 10 scans failed, the others are in")
    assert len(sentences) == 4
    for sentence, words in zip(
        sentences,
        (
            "corrupt.nii.gz cannot be read",
            "cut.nii.gz cannot be read",
            "narrow.nii.gz has 3 channels, but the task has 4",
            "side_0000.nii.gz is seen from the side",
        ),
        strict=True,
    ):
        assert words in sentence
    good = [f"good{number}.nii.gz" for number in range(6)]
    assert names(tmp_path / "out") == ["cases.csv", *good, "prediction.json"]
    assert len(rows(tmp_path / "out/cases.csv")) == 18


def test_one_bad_scan_alone_is_one_sentence(run_directory, tmp_path):
    with pytest.raises(
        UserError,
        match=r"^\S*gone\.nii\.gz does not exist: correct the path or put the file there\.$",
    ):
        predict_files(run_directory, [tmp_path / "gone.nii.gz"], Order(tmp_path / "out"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty holds no image"):
        predict_files(run_directory, [tmp_path / "empty"], Order(tmp_path / "out"))


def test_a_full_disk_leaves_nothing_half_written(run_directory, scans, tmp_path, monkeypatch):
    save = nibabel.save

    def filling(image, place):
        if "scan1" in place.name:
            place.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        save(image, place)

    monkeypatch.setattr(saving.nibabel, "save", filling)
    with pytest.raises(
        UserError,
        match=r"1 of 3 scans failed.*\n.*scan1\.nii\.gz cannot be written \(No space left",
    ):
        predict_files(run_directory, [scans], Order(tmp_path))
    assert names(tmp_path) == ["cases.csv", "prediction.json", "scan0.nii.gz", "scan2.nii.gz"]
    monkeypatch.undo()
    predict_files(run_directory, [scans], Order(tmp_path))
    assert (tmp_path / "scan1.nii.gz").is_file(), "with room again, what failed is done"


def test_a_place_that_cannot_be_written_is_found_out_before_the_work(
    run_directory, scans, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr("segpl.prediction.many.fly", lambda *_: pytest.fail("too late"))
    with pytest.raises(
        UserError, match=r"file/out/prediction\.json cannot be written \(Not a directory\)"
    ):
        predict_files(run_directory, [scans], Order(tmp_path / "file/out"))


def test_a_scan_that_is_too_large_stops_no_other(run_directory, scans, tmp_path, monkeypatch):
    def scarce(predictor, scan):
        if scan.case.name == "scan0":
            raise MemoryError
        return prepare(predictor, scan)

    prepare = Predictor.prepare
    monkeypatch.setattr(Predictor, "prepare", scarce)
    with pytest.raises(
        UserError, match=r"scan0\.nii\.gz is too large for the memory of this machine: crop it"
    ):
        predict_files(run_directory, [scans], Order(tmp_path))
    assert (tmp_path / "scan2.nii.gz").is_file()


def test_masks_in_the_format_of_the_scan(run_directory, tmp_path):
    voxels = np.random.default_rng(0).integers(0, 500, (2, 36, 32, 4)).astype(np.int16)
    image = SimpleITK.GetImageFromArray(voxels, isVector=True)
    image.SetSpacing((0.9, 0.9, 3))
    image.SetDirection((0, 1, 0, 1, 0, 0, 0, 0, -1))
    for ending in ("mha", "nrrd"):
        SimpleITK.WriteImage(image, str(tmp_path / f"{ending}.{ending}"))
    predict_files(run_directory, [tmp_path], Order(tmp_path / "out", format="same"))
    masks = [
        SimpleITK.ReadImage(str(tmp_path / f"out/{ending}.{ending}")) for ending in ("mha", "nrrd")
    ]
    for mask in masks:
        assert mask.GetSize() == image.GetSize()
        np.testing.assert_allclose(mask.GetDirection(), image.GetDirection())
        np.testing.assert_allclose(mask.GetSpacing(), image.GetSpacing())
    np.testing.assert_array_equal(*map(SimpleITK.GetArrayFromImage, masks))
    before = names(tmp_path / "out")
    predict_files(run_directory, [tmp_path / "mha.mha"], Order(tmp_path / "out", format="same"))
    assert names(tmp_path / "out") == before
    predict_files(run_directory, [tmp_path / "mha.mha"], Order(tmp_path / "plain"))
    predict_files(run_directory, [tmp_path / "mha.mha"], Order(tmp_path / "plain", format="same"))
    assert (tmp_path / "plain/mha.mha").exists(), (
        "a mask as NIfTI is not the mask that was asked for"
    )


def test_pictures_get_pictures(save_run, tmp_path):
    """A network of four channels takes four grey pictures."""
    for channel in range(4):
        grey = np.random.default_rng(channel).integers(0, 255, (36, 40)).astype(np.uint8)
        Image.fromarray(grey).save(tmp_path / f"eye_000{channel}.tif")
    predict_files(save_run(), [tmp_path], Order(tmp_path / "out", format="same"))
    assert np.asarray(Image.open(tmp_path / "out/eye.png")).shape == (36, 40)


def test_undefined_numbers_stay_empty_and_names_are_kept(tmp_path):
    nan = float("nan")
    Table(tmp_path / "cases.csv").add('a, "b"', {"007": Numbers(0.0, 0.0, 1.25, nan, nan, nan)})
    Table(tmp_path / "cases.csv").add("c", {"007": Numbers(1.0, 0.5, 1.25, 0.9, 0.1, nan)})
    first, second = rows(tmp_path / "cases.csv")
    assert (first["case"], first["region"], first["volume_high_ml"], first["uncertainty"]) == (
        'a, "b"',
        "007",
        "1.25",
        "",
    )
    assert (second["case"], second["expected_dice"], second["variance"]) == ("c", "0.9", "")


def test_the_settings_are_beside_the_masks(run_directory, scans, tmp_path):
    predict_files(run_directory, [scans / "scan0.nii.gz"], Order(tmp_path, temperature=1.5))
    settings = json.loads((tmp_path / "prediction.json").read_text(encoding="utf-8"))
    assert settings["temperature"] == 1.5
    assert settings["samples"] == 1
