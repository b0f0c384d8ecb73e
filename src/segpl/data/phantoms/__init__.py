"""Phantoms: made-up subjects with known labels, written as a data folder like any other."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from rich.progress import track

from segpl.data.phantoms import tumour, vessels
from segpl.data.phantoms.brain import MODALITIES
from segpl.data.phantoms.fields import Phantom

__all__ = ["Phantom", "Task", "write_phantoms"]

Task = Literal["tumour", "vessels"]

DRAW = {"tumour": tumour.draw, "vessels": vessels.draw}
DESCRIPTION: dict[str, dict[str, Any]] = {
    "tumour": {
        "channel_names": {str(number): name for number, name in enumerate(MODALITIES)},
        "labels": {"background": 0, "whole tumour": [1, 2, 3], "tumour core": [2, 3], "enhancing core": [3]},
        "regions_class_order": [1, 2, 3],
    },
    "vessels": {"channel_names": {"0": "CT"}, "labels": {"background": 0, "vessel": 1}},
}


def write_phantoms(task: Task, folder: Path, subjects: int = 24, seed: int = 0) -> Path:
    """Write phantoms in nnU-Net's layout: a third labelled, a third unlabelled, a third for testing."""
    check(task, folder, subjects)
    images, labels = places(subjects)
    for subject in track(range(subjects), f"Drawing {task} phantoms", transient=True):
        phantom = DRAW[task](seed, subject)
        name = f"{task}_{subject:03}"
        for channel, image in enumerate(phantom.image):
            voxels = np.rint(image).astype(np.int16)
            write_nifti(folder / images[subject] / f"{name}_{channel:04}.nii.gz", voxels, phantom.spacing)
        if where := labels[subject]:
            write_nifti(folder / where / f"{name}.nii.gz", phantom.label, phantom.spacing)
    # last, so that a folder with a dataset.json is complete
    write_bytes(folder / "dataset.json", json.dumps(dataset(task, subjects, seed), indent=2).encode() + b"\n")
    return folder


def check(task: Task, folder: Path, subjects: int) -> None:
    """Refuse what cannot be written, before anything is."""
    if task not in get_args(Task):
        raise ValueError(f"There is no phantom called {task!r}: choose one of {', '.join(get_args(Task))}.")
    if subjects < 3:
        raise ValueError(f"Phantoms need at least 3 subjects (labelled, unlabelled and test), not {subjects}.")
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"The folder {folder} is not empty: delete it or name another one.")


def places(subjects: int) -> tuple[list[str], list[str | None]]:
    """The folder of each subject's image and of its label; what does not divide by three is unlabelled."""
    third = subjects // 3
    counts = (third, subjects - 2 * third, third)
    images = np.repeat(["imagesTr", "imagesUn", "imagesTs"], counts).tolist()
    labels = {"imagesTr": "labelsTr", "imagesUn": None, "imagesTs": "labelsTs"}
    return images, [labels[place] for place in images]


def dataset(task: Task, subjects: int, seed: int) -> dict[str, Any]:
    """The contents of dataset.json."""
    return {
        "name": f"{task} phantoms",
        "description": f"Phantoms, not patients: {subjects} made-up subjects drawn by segpl with seed {seed}.",
        **DESCRIPTION[task],
        "numTraining": subjects // 3,
        "file_ending": ".nii.gz",
    }


def write_nifti(path: Path, voxels: np.ndarray, spacing: tuple[float, float, float]) -> None:
    """Write voxels whose axes point right, forward and up, with the origin in the middle."""
    from nibabel.nifti1 import Nifti1Image

    affine = np.diag([*spacing, 1.0])
    affine[:3, 3] = -(np.array(voxels.shape) - 1) / 2 * spacing
    nifti = Nifti1Image(voxels, affine)
    nifti.header.set_xyzt_units("mm")
    # without a time stamp, so that the same phantom is the same bytes
    write_bytes(path, gzip.compress(nifti.to_bytes(), compresslevel=1, mtime=0))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file that is never seen half written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    partial.replace(path)
