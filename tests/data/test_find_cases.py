"""Which scans a user means."""

import json

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
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    return folder


def found(inputs, task):
    return {case.name: [file.name for file in case.images] for case in find_cases(inputs, task)}


def test_a_folder_of_scans_is_a_case_per_file(tmp_path):
    touch(tmp_path, "a.nii.gz", "b_0000.mha", "scan_2019.nrrd", "notes.txt", ".hidden.nii.gz")
    assert found([tmp_path], CT) == {
        "a": ["a.nii.gz"],
        "b": ["b_0000.mha"],
        "scan_2019": ["scan_2019.nrrd"],
    }


def test_numbered_files_are_channels(tmp_path):
    names = [f"a_000{channel}.nii.gz" for channel in range(4)]
    touch(tmp_path, *reversed(names), "b.nii.gz", "c_2019.nii.gz")
    expected = {"a": names, "b": ["b.nii.gz"], "c_2019": ["c_2019.nii.gz"]}
    assert found([tmp_path], BRATS) == expected
    assert found(sorted(tmp_path.iterdir(), reverse=True), BRATS) == expected


def test_named_files_are_channels_in_the_order_of_the_run(tmp_path):
    names = [
        "a/a_flair.nii.gz",
        "a/a_t1.nii.gz",
        "a/a_t1ce.nii.gz",
        "a/a_t2.nii.gz",
        "a/a_seg.nii.gz",
    ]
    touch(tmp_path / "HGG", *names)
    touch(tmp_path / "LGG", "b/b_T1.nii", "b/b_FLAIR.nii")
    whole = {
        "a": ["a_flair.nii.gz", "a_t1.nii.gz", "a_t1ce.nii.gz", "a_t2.nii.gz"],
        "b": ["b_FLAIR.nii", "b_T1.nii"],
    }
    assert found([tmp_path], BRATS) == whole, (
        "that b lacks two channels shows when it is read, and stops no other"
    )
    assert found([tmp_path / "HGG/a"], BRATS) == {"a": whole["a"]}


def test_a_data_folder_gives_its_images_and_not_its_labels(tmp_path):
    description = {
        "channel_names": {"0": "CT"},
        "labels": {"background": 0, "lesion": 1},
        "file_ending": ".nii.gz",
    }
    touch(tmp_path, "imagesTr/a_0000.nii.gz", "labelsTr/a.nii.gz", "imagesTs/b_0000.nii.gz")
    (tmp_path / "dataset.json").write_text(json.dumps(description))
    assert found([tmp_path], CT) == {"a": ["a_0000.nii.gz"], "b": ["b_0000.nii.gz"]}
    assert all(case.label is None for case in find_cases([tmp_path], CT))


def test_a_folder_of_dicom_files_is_one_scan(tmp_path):
    touch(tmp_path / "patient", "1.dcm", "2.dcm")
    assert found([tmp_path / "patient"], CT) == {"patient": ["patient"]}
    assert found([tmp_path], CT) == {"patient": ["patient"]}


def test_a_folder_is_called_by_its_real_name(tmp_path, monkeypatch):
    monkeypatch.chdir(touch(tmp_path / "patient", "1.dcm"))
    assert list(found([type(tmp_path)(".")], CT)) == ["patient"]


def test_a_file_given_twice_is_one_case(tmp_path):
    touch(tmp_path, "a.nii.gz")
    assert len(find_cases([tmp_path.resolve(), tmp_path.resolve() / "a.nii.gz"], CT)) == 1


def test_what_is_missing_shows_when_it_is_read(tmp_path):
    assert found([tmp_path / "gone.nii.gz"], CT) == {"gone": ["gone.nii.gz"]}


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
def test_folders_that_mean_nothing_or_two_things(names, complaint, tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(UserError, match=complaint):
        find_cases([touch(tmp_path / "data", *names)], CT)


def test_two_scans_of_one_name_would_have_one_mask(tmp_path):
    touch(tmp_path, "first/a.nii.gz", "second/a.nii.gz")
    with pytest.raises(
        UserError, match=r"first/a\.nii\.gz and .*second/a\.nii\.gz are both called a: rename one"
    ):
        find_cases([tmp_path / "first", tmp_path / "second"], CT)


def test_arrays_in_archives_are_meant_by_name(tmp_path):
    np.savez(tmp_path / "a.npz", image=np.zeros((3, 3)), other=np.zeros((3, 3)))
    assert found([tmp_path / "a.npz#other"], CT) == {"a": ["a.npz#other"]}
