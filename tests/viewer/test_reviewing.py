"""Reviews through the server: which files are written, and what the next training sees."""

import csv
import gzip
import os
import shutil

import nibabel
import numpy as np
import pytest
from conftest import OBLIQUE, SHAPE, landmark, read_label, server_in_thread, write_data

from segpl.data.cases import Region
from segpl.data.layouts import read_dataset
from segpl.foundation.errors import UserError
from segpl.foundation.files import write_nifti
from segpl.viewer.percent import PERCENT_OF_LEVEL, curve_of
from segpl.viewer.reviewing import label_values, numbers_at


def drawn(numbers):
    """A mask as the page sends it."""
    return gzip.compress(numbers.astype(np.uint8).tobytes(order="F"))


def log_of(folder):
    with (folder / "reviews.csv").open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def labels_of(data):
    return {case.name: case.label for case in read_dataset(data).training}


def test_a_drawn_mask_becomes_a_label_in_the_geometry_of_the_scan(client, data):
    numbers = landmark().astype(np.uint8)
    numbers[6:8, 5:9, 5:7] = 2
    status, _ = client.post(f"api/scans/{client.number('ben')}/label", drawn(numbers))
    assert status == 200
    file = data / "labelsTr/ben.nii.gz"
    label = nibabel.load(file)
    scan = nibabel.load(data / "imagesTr/ben_0000.nii.gz")
    assert np.array_equal(read_label(file), np.array([0, 1, 3])[numbers])
    assert np.array_equal(label.affine, scan.affine)
    assert label.header["sform_code"] == scan.header["sform_code"]
    assert labels_of(data)["ben"] == file
    (row,) = log_of(data / "reviewed")
    assert (row["case"], row["decision"], row["reviewer"]) == ("ben", "corrected", "Dr Who")
    assert row["label"] == "../labelsTr/ben.nii.gz"
    assert row["date"].endswith("Z")


def test_an_original_label_is_never_overwritten(client, data):
    original = (data / "labelsTr/anna.nii.gz").read_bytes()
    client.post(f"api/scans/{client.number('anna')}/label", drawn(~landmark()))
    assert (data / "labelsTr/anna.nii.gz").read_bytes() == original
    reviewed = data / "reviewed/anna.nii.gz"
    assert labels_of(data)["anna"] == reviewed
    assert np.array_equal(read_label(reviewed), ~landmark())


def test_an_image_without_a_place_for_its_label_is_reviewed_too(client, data):
    client.post(f"api/scans/{client.number('dora')}/label", drawn(landmark()))
    assert labels_of(data)["dora"] == data / "reviewed/dora.nii.gz"


def test_a_second_review_replaces_the_first(client, data):
    path = f"api/scans/{client.number('ben')}/label"
    client.post(path, drawn(landmark()))
    client.post(path, drawn(~landmark()))
    assert np.array_equal(read_label(data / "labelsTr/ben.nii.gz"), ~landmark())
    assert len(log_of(data / "reviewed")) == 2


def test_a_label_that_somebody_put_in_place_of_a_reviewed_one_is_kept(client, data):
    path = f"api/scans/{client.number('ben')}/label"
    client.post(path, drawn(landmark()))
    foreign = data / "labelsTr/ben.nii.gz"
    write_nifti(foreign, np.ones(SHAPE, dtype=np.uint8), OBLIQUE)
    client.post(path, drawn(~landmark()))
    assert read_label(foreign).all()
    assert np.array_equal(read_label(data / "reviewed/ben.nii.gz"), ~landmark())


def test_a_rejected_scan_is_left_out_and_can_be_taken_back(client, data):
    path = f"api/scans/{client.number('ben')}/decision"
    client.post(path, {"decision": "rejected"})
    assert "ben" not in labels_of(data)
    scans = client.get_json("api/list")["scans"]
    assert {scan["name"]: scan["decision"] for scan in scans}["ben"] == "rejected"
    client.post(path, {"decision": "withdrawn"})
    assert labels_of(data)["ben"] is None


def test_a_label_that_is_taken_back_is_removed(client, data):
    number = client.number("ben")
    client.post(f"api/scans/{number}/label", drawn(landmark()))
    assert client.get_json("api/list")["labels"] == 2
    client.post(f"api/scans/{number}/decision", {"decision": "withdrawn"})
    assert not (data / "labelsTr/ben.nii.gz").exists()
    assert client.get_json("api/list")["labels"] == 1


def test_the_label_of_a_test_case_cannot_be_changed(client, data):
    number = client.number("emil")
    before = (data / "labelsTs/emil.nii.gz").read_bytes()
    assert client.post(f"api/scans/{number}/label", drawn(landmark()))[0] == 422
    assert client.post(f"api/scans/{number}/decision", {"decision": "rejected"})[0] == 422
    assert (data / "labelsTs/emil.nii.gz").read_bytes() == before


def test_a_mask_with_too_few_voxels_or_unknown_regions_is_refused(client, data):
    path = f"api/scans/{client.number('ben')}/label"
    assert client.post(path, drawn(np.zeros(10)))[0] == 422
    assert client.post(path, drawn(np.full(SHAPE, 3)))[0] == 422
    assert client.post(path, b"no gzip")[0] == 422
    assert not (data / "labelsTr/ben.nii.gz").exists()


def test_a_mask_cannot_be_accepted_before_it_is_predicted(client):
    decision = {"decision": "accepted", "thresholds": [50, 50]}
    status, answer = client.post(f"api/scans/{client.number('ben')}/decision", decision)
    assert status == 422
    assert "no prediction yet" in answer["error"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_reviews_of_read_only_data_are_beside_it(data, tmp_path):
    data.chmod(0o555)
    (data / "labelsTr").chmod(0o555)
    with server_in_thread(data, tmp_path / "cache") as client:
        client.post(f"api/scans/{client.number('ben')}/label", drawn(landmark()))
    assert labels_of(data)["ben"] == tmp_path / "data-reviewed/ben.nii.gz"


def test_reviews_of_read_only_data_are_beside_it_for_root_too(data, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: data not in (path, *path.parents))
    with server_in_thread(data, tmp_path / "cache") as client:
        client.post(f"api/scans/{client.number('ben')}/label", drawn(landmark()))
    assert labels_of(data)["ben"] == tmp_path / "data-reviewed/ben.nii.gz"
    assert not (data / "reviewed").exists()


def test_a_folder_per_patient_is_reviewed(tmp_path):
    source = write_data(tmp_path / "source")
    folder = tmp_path / "patients"
    for name in ("anna", "ben"):
        (folder / name).mkdir(parents=True)
        shutil.copy(source / f"imagesTr/{name}_0000.nii.gz", folder / name / f"{name}.nii.gz")
    shutil.copy(source / "labelsTr/anna.nii.gz", folder / "anna/anna_seg.nii.gz")
    with server_in_thread(folder, tmp_path / "cache") as client:
        client.post(f"api/scans/{client.number('ben')}/label", drawn(landmark()))
    assert labels_of(folder) == {
        "anna": folder / "anna/anna_seg.nii.gz",
        "ben": folder / "reviewed/ben.nii.gz",
    }


def test_a_damaged_log_is_refused_with_its_name(data):
    (data / "reviewed").mkdir()
    (data / "reviewed/reviews.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match=r"reviews\.csv has other columns"):
        read_dataset(data)


def test_a_reviewed_label_that_is_gone_is_named(client, data):
    client.post(f"api/scans/{client.number('dora')}/label", drawn(landmark()))
    (data / "reviewed/dora.nii.gz").unlink()
    with pytest.raises(UserError, match=r"dora\.nii\.gz is missing"):
        read_dataset(data)


def test_a_region_that_no_label_value_stands_for_cannot_be_saved():
    regions = (Region("both", (1, 2), 3), Region("one", (1,), 1), Region("two", (2,), 2))
    assert label_values(np.full((1, 1, 1), 2, np.uint8), regions).item() == 1
    with pytest.raises(UserError, match="both alone"):
        label_values(np.full((1, 1, 1), 1, np.uint8), regions)


def test_a_label_is_sent_as_numbers_of_regions(client):
    status, _, content = client.request("GET", f"scans/{client.number('anna')}/label")
    assert status == 200
    numbers = np.asarray(nibabel.Nifti1Image.from_bytes(content).dataobj)
    assert np.array_equal(numbers > 0, landmark())
    assert set(np.unique(numbers)) == {0, 1, 2}


@pytest.mark.parametrize("threshold", [1, 33, 50, 99])
def test_per_cent_exceed_a_threshold_exactly_where_probabilities_do(threshold):
    levels = np.arange(65536)
    assert np.array_equal(threshold < PERCENT_OF_LEVEL, levels * 100 > threshold * 65535)


def test_the_curve_starts_at_the_threshold_of_the_models_mask():
    levels = np.random.default_rng(0).integers(0, 65536, (20, 20, 20)).astype(np.uint16)
    assert curve_of(levels, int((levels > 32767).sum())).start == 50
    assert curve_of(levels, int((levels > 0.3 * 65535).sum())).start == 30
    curve = curve_of(levels, 0)
    assert curve.voxels.sum() == levels.size
    assert np.isclose(curve.probability.sum(), (levels / 65535).sum())


def test_a_later_region_covers_an_earlier_one():
    first = np.array([[[10, 60, 60]]], dtype=np.uint8)
    second = np.array([[[10, 10, 60]]], dtype=np.uint8)
    assert numbers_at([first, second], [50, 50]).tolist() == [[[0, 1, 2]]]
