"""CARVE 2014: CT scans as MHD (or MHA) files, some with annotated vessels in a second file.

We had no copy of the release. These assumptions come from programs that use it:
- A scan is `<series>.7.mhd` (or has any other name); its annotation is
  `<series>_fullAnnotations.mhd`.
- Both are in one folder, or in `images` (or `scans`) and `annotations` (or `vessels`, `labels`).
- Scans without an annotation are unlabelled.
- In an annotation 0 is background, 1 veins, 2 arteries, and -999 vessels that the observers could
  not assign to either: all values but 0 are vessel.
"""

import re
from pathlib import Path

from segpl.data.cases import Dataset, Region, Task
from segpl.data.formats import stem
from segpl.data.layouts.pairing import pair, visible
from segpl.data.layouts.task_from_files import label_values

NAME = "CARVE"
DESCRIPTION = (
    "MHD files in images, with case_fullAnnotations.mhd for case.mhd in annotations or beside it"
)
TREE = """
images/        1.2.3.7.mhd   1.2.4.7.mhd
annotations/   1.2.3_fullAnnotations.mhd
"""

ANNOTATION_SUFFIX = re.compile(r"_(fullAnnotations?|vessels?|labels?)$", re.IGNORECASE)
SCAN_FOLDERS = ("images", "scans")
ANNOTATION_FOLDERS = ("annotations", "vessels", "labels")
VESSEL_NAME = re.compile(r"_(fullAnnotations?|vessels?)$", re.IGNORECASE)
"""Names that only annotations of vessels have; other folders of MHD files are plain folders."""


def recognises(folder: Path) -> bool:
    """Whether there are scans as MHD or MHA files, and annotations that are named as of vessels."""
    scans, annotations = _scans_and_annotations(folder)
    return bool(scans) and any(_is_of_vessels(file) for file in annotations)


def _is_of_vessels(annotation: Path) -> bool:
    return annotation.parent.name == "vessels" or bool(VESSEL_NAME.search(stem(annotation)))


def read(folder: Path) -> Dataset:
    """The dataset in `folder`, with one region: the vessels, both arteries and veins."""
    scans, annotations = _scans_and_annotations(folder)
    annotated_series = {_without_suffix(file) for file in annotations}

    def series(file: Path) -> str:
        name = _without_suffix(file)
        series_of_scan = name.rpartition(".")[0]  # the scan of 1.2.3_fullAnnotations is 1.2.3.7
        if name not in annotated_series and series_of_scan in annotated_series:
            return series_of_scan
        return name

    cases = pair(scans, annotations, series)
    vessel_values = tuple(label_values(folder, cases))
    vessel = Region("vessel", vessel_values, paint=1)
    task = Task(channels=("CT",), regions=(vessel,))
    return Dataset(
        folder=folder,
        task=task,
        training=cases,
        test=(),
        layout=NAME,
    )


def _without_suffix(file: Path) -> str:
    return ANNOTATION_SUFFIX.sub("", stem(file))


def _scans_and_annotations(folder: Path) -> tuple[list[Path], list[Path]]:
    """The files of scans and those of annotations, in two folders or in one."""
    scans = _volumes(folder, SCAN_FOLDERS)
    annotations = _volumes(folder, ANNOTATION_FOLDERS)
    if scans and annotations:
        return scans, annotations
    files = _volumes_in(folder)
    scans = [file for file in files if "_" not in stem(file)]
    annotations = [file for file in files if ANNOTATION_SUFFIX.search(stem(file))]
    return scans, annotations


def _volumes(folder: Path, subfolders: tuple[str, ...]) -> list[Path]:
    files = []
    for subfolder in subfolders:
        files += _volumes_in(folder / subfolder)
    return files


def _volumes_in(folder: Path) -> list[Path]:
    """The MHD and MHA files of a folder by name, without hidden ones."""
    mhd_files = folder.glob("*.mhd")
    mha_files = folder.glob("*.mha")
    return visible([*mhd_files, *mha_files])
