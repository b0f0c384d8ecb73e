"""BRATS as its organisers ship it.

One folder per case with `<case>_flair.nii.gz` and so on, perhaps below `HGG` and `LGG`. Later years
give the grades in `name_mapping.csv` instead, or not at all.
"""

import csv
from collections.abc import Mapping
from pathlib import Path

from segpl.data.cases import Case, Dataset, Region, Task
from segpl.data.layouts.pairing import visible
from segpl.foundation.errors import UserError

NAME = "BRATS"
DESCRIPTION = (
    "a folder per case, perhaps below HGG and LGG, with case_flair.nii.gz, _t1, _t1ce, _t2 and _seg"
)
TREE = """
BraTS_001/   BraTS_001_flair.nii.gz   _t1   _t1ce   _t2   _seg
BraTS_002/   BraTS_002_flair.nii.gz   _t1   _t1ce   _t2
"""

TASK = Task(
    channels=("flair", "t1", "t1ce", "t2"),
    regions=(
        Region("whole tumour", values=(1, 2, 4), paint=2),
        Region("tumour core", values=(1, 4), paint=1),
        Region("enhancing core", values=(4,), paint=4),
    ),
)
"""The paper's label fusion. A label map painted in this order has the organisers' own values."""

GRADES = ("HGG", "LGG")
GRADE_FILE = "name_mapping.csv"
"""A table of 2019 and 2020 with a column `Grade`, and a column for the names of each year."""


def recognises(folder: Path) -> bool:
    """Whether a case folder has all four channels. Folders of other data may have some of them."""
    return any(_is_complete(subfolder) for subfolder in _subfolders(folder))


def read(folder: Path) -> Dataset:
    """The dataset in `folder`, without test cases.

    The cases of the organisers' validation set have no label, so they are unlabelled.
    """
    case_folders = [subfolder for subfolder in _subfolders(folder) if _is_case(subfolder)]
    grades = _read_grades(folder / GRADE_FILE)
    cases = tuple(_case(case_folder, grades) for case_folder in case_folders)
    return Dataset(
        folder=folder,
        task=TASK,
        training=cases,
        test=(),
        use_slices=True,
        layout=NAME,
    )


def _subfolders(folder: Path) -> list[Path]:
    """The visible subfolders of `HGG` and `LGG`, or of `folder` itself where there are neither."""
    grade_folders = [folder / grade for grade in GRADES]
    parents = [path for path in grade_folders if path.is_dir()]
    if not parents and folder.is_dir():
        parents = [folder]
    paths: list[Path] = []
    for parent in parents:
        paths += parent.iterdir()
    return [path for path in visible(paths) if path.is_dir()]


def _is_complete(folder: Path) -> bool:
    return all(_find_file(folder, channel) for channel in TASK.channels)


def _is_case(folder: Path) -> bool:
    return any(_find_file(folder, channel) for channel in TASK.channels)


def _read_grades(file: Path) -> dict[str, str]:
    """Grades by the names that a case has had; none without the file or without the column."""
    grades: dict[str, str] = {}
    if not file.is_file():
        return grades
    with file.open(encoding="utf-8-sig", newline="") as stream:
        for row in csv.DictReader(stream):
            grade = row.get("Grade")
            if grade in GRADES:
                grades |= dict.fromkeys(row.values(), grade)
    return grades


def _grade(folder: Path, grades: Mapping[str, str]) -> str | None:
    """The grade by the folder around the case, or by the table of grades; None if unknown."""
    if folder.parent.name in GRADES:
        return folder.parent.name
    return grades.get(folder.name)


def _case(folder: Path, grades: Mapping[str, str]) -> Case:
    return Case(
        name=folder.name,
        subject=folder.name,
        images=tuple(_channel_file(folder, channel) for channel in TASK.channels),
        label=_find_file(folder, "seg"),
        grade=_grade(folder, grades),
    )


def _channel_file(folder: Path, channel: str) -> Path:
    file = _find_file(folder, channel)
    if file is None:
        missing = folder / f"{folder.name}_{channel}.nii.gz"
        raise UserError(f"{missing} is missing: add it or remove {folder.name}.")
    return file


def _find_file(folder: Path, suffix: str) -> Path | None:
    """The file `<case>_<suffix>` of a case folder, compressed or not; None if there is none."""
    name = f"{folder.name}_{suffix}"
    candidates = [folder / f"{name}.nii.gz", folder / f"{name}.nii"]
    files = [file for file in candidates if file.is_file()]
    if len(files) > 1:
        raise UserError(f"{files[0]} also exists as {files[1].name}: remove one of them.")
    return files[0] if files else None
