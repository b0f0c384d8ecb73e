"""Which cases the files and folders that a user names stand for."""

import json
from pathlib import Path

import numpy as np
import pytest

from segpl.data.cases import Region, Task
from segpl.data.inputs import find_cases
from segpl.foundation.errors import UserError

REGIONS = (Region("lesion", (1,), 1),)
CT = Task(("CT",), REGIONS)
BRATS = Task(("flair", "t1", "t1ce", "t2"), REGIONS)


def touch(folder, *names):
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    return folder


def images_by_case(inputs, task):
    images = {}
    for case in find_cases(inputs, task):
        images[case.name] = [file.name for file in case.images]
    return images


def test_a_folder_of_scans_is_a_case_per_file(tmp_path):
    touch(tmp_path, "a.nii.gz", "b_0000.mha", "scan_2019.nrrd", "notes.txt", ".hidden.nii.gz")
    assert images_by_case([tmp_path], CT) == {
        "a": ["a.nii.gz"],
        "b": ["b_0000.mha"],
        "scan_2019": ["scan_2019.nrrd"],
    }


def test_numbered_files_are_channels(tmp_path):
    names = [f"a_000{channel}.nii.gz" for channel in range(4)]
    touch(tmp_path, *reversed(names), "b.nii.gz", "c_2019.nii.gz")
    expected = {"a": names, "b": ["b.nii.gz"], "c_2019": ["c_2019.nii.gz"]}
    assert images_by_case([tmp_path], BRATS) == expected
    assert images_by_case(sorted(tmp_path.iterdir(), reverse=True), BRATS) == expected


def test_named_files_are_channels_in_the_order_of_the_run(tmp_path):
    channels = ["a_flair.nii.gz", "a_t1.nii.gz", "a_t1ce.nii.gz", "a_t2.nii.gz"]
    touch(tmp_path / "HGG/a", *channels, "a_seg.nii.gz")
    assert images_by_case([tmp_path], BRATS) == {"a": channels}
    assert images_by_case([tmp_path / "HGG/a"], BRATS) == {"a": channels}


def test_a_missing_channel_is_left_for_reading_to_report(tmp_path):
    touch(tmp_path / "LGG", "b/b_T1.nii", "b/b_FLAIR.nii")
    assert images_by_case([tmp_path], BRATS) == {"b": ["b_FLAIR.nii", "b_T1.nii"]}


def test_a_data_folder_gives_its_images_and_not_its_labels(tmp_path):
    description = {
        "channel_names": {"0": "CT"},
        "labels": {"background": 0, "lesion": 1},
        "file_ending": ".nii.gz",
    }
    touch(tmp_path, "imagesTr/a_0000.nii.gz", "labelsTr/a.nii.gz", "imagesTs/b_0000.nii.gz")
    (tmp_path / "dataset.json").write_text(json.dumps(description))
    assert images_by_case([tmp_path], CT) == {"a": ["a_0000.nii.gz"], "b": ["b_0000.nii.gz"]}
    assert all(case.label is None for case in find_cases([tmp_path], CT))


def test_a_folder_of_dicom_files_is_one_scan(tmp_path):
    touch(tmp_path / "patient", "1.dcm", "2.dcm")
    assert images_by_case([tmp_path / "patient"], CT) == {"patient": ["patient"]}
    assert images_by_case([tmp_path], CT) == {"patient": ["patient"]}


def test_a_folder_is_called_by_its_real_name(tmp_path, monkeypatch):
    monkeypatch.chdir(touch(tmp_path / "patient", "1.dcm"))
    assert list(images_by_case([Path()], CT)) == ["patient"]


def test_a_file_given_twice_is_one_case(tmp_path):
    folder = touch(tmp_path.resolve(), "a.nii.gz")
    assert len(find_cases([folder, folder / "a.nii.gz"], CT)) == 1


def test_a_missing_file_is_left_for_reading_to_report(tmp_path):
    assert images_by_case([tmp_path / "gone.nii.gz"], CT) == {"gone": ["gone.nii.gz"]}


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ([], r"data holds no image: give image files, a folder of them, or a DICOM series\."),
        (["notes.txt"], r"data holds no image"),
        (
            ["a.nii.gz", "a.mha"],
            r"a\.mha and .*a\.nii\.gz are the same channel of a: give one of them\.",
        ),
        (
            ["a.nii.gz", "a_0000.nii.gz"],
            r"a\.nii\.gz and .*a_0000\.nii\.gz are the same channel of a",
        ),
    ],
)
def test_empty_and_ambiguous_folders_are_errors(names, complaint, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    touch(folder, *names)
    with pytest.raises(UserError, match=complaint):
        find_cases([folder], CT)


def test_two_scans_with_the_same_name_are_an_error(tmp_path):
    touch(tmp_path, "first/a.nii.gz", "second/a.nii.gz")
    complaint = r"first/a\.nii\.gz and .*second/a\.nii\.gz are both called a: rename one"
    with pytest.raises(UserError, match=complaint):
        find_cases([tmp_path / "first", tmp_path / "second"], CT)


def test_an_array_in_an_archive_can_be_named(tmp_path):
    np.savez(tmp_path / "a.npz", image=np.zeros((3, 3)), other=np.zeros((3, 3)))
    assert images_by_case([tmp_path / "a.npz#other"], CT) == {"a": ["a.npz#other"]}
