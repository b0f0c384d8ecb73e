"""CARVE 2014: CT scans as MHD (or MHA) files, some with annotated vessels in a second file.

We had no copy of the release. What is assumed, from its users' programs: a scan is `<series>.7.mhd` (or any other
name), its annotation `<series>_fullAnnotations.mhd`, both in one folder or in `images` (or `scans`) and `annotations`
(or `vessels`, `labels`); scans without one are unlabelled. In an annotation 0 is background, 1 veins,
2 arteries, and -999 vessels whose kind the observers left undecided: all but 0 is vessel.
"""

import re
from pathlib import Path

from segpl.data.cases import Dataset, Region, Task
from segpl.data.formats import stem
from segpl.data.layouts.contents import label_values
from segpl.data.layouts.pairing import pair

NAME = "CARVE"
DESCRIPTION = "images and annotations with MHD files of the same names, or case_fullAnnotations.mhd beside case.mhd"

SUFFIX = re.compile(r"_(fullAnnotations?|vessels?|labels?)$", re.IGNORECASE)


def recognises(folder: Path) -> bool:
    """Scans and annotations that are MHD or MHA files."""
    return all(_files(folder))


def read(folder: Path) -> Dataset:
    """The data set in `folder`: one region, the vessels, be they arteries or veins."""
    scans, annotations = _files(folder)
    annotated = {SUFFIX.sub("", stem(file)) for file in annotations}

    def series(file: Path) -> str:
        name = SUFFIX.sub("", stem(file))
        without_number = name.rpartition(".")[0]  # the scan of 1.2.3_fullAnnotations is 1.2.3.7
        return without_number if name not in annotated and without_number in annotated else name

    cases = pair(scans, annotations, series)
    vessel = Region("vessel", tuple(label_values(folder, cases)), paint=1)
    return Dataset(folder, Task(("CT",), (vessel,)), cases, (), layout=NAME)


def _files(folder: Path) -> tuple[list[Path], list[Path]]:
    """Scans and annotations, in two folders or in one."""
    scans = [file for name in ("images", "scans") for file in _volumes(folder / name)]
    annotations = [
        file for name in ("annotations", "vessels", "labels") for file in _volumes(folder / name)
    ]
    if scans and annotations:
        return scans, annotations
    both = _volumes(folder)
    return [file for file in both if "_" not in stem(file)], [
        file for file in both if SUFFIX.search(stem(file))
    ]


def _volumes(folder: Path) -> list[Path]:
    files = (file for ending in ("mhd", "mha") for file in folder.glob(f"*.{ending}"))
    return sorted(file for file in files if not file.name.startswith("."))
