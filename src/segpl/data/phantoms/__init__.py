"""Phantoms: made-up subjects with known labels, written as a data folder like any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np

from segpl.data.phantoms import tumour, vessels
from segpl.data.phantoms.brain import MODALITIES
from segpl.data.phantoms.fields import Phantom
from segpl.foundation.errors import UserError
from segpl.foundation.files import draft, write_nifti, write_text
from segpl.foundation.progress import track

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
    check(folder, subjects)
    folder = folder.resolve()
    images, labels = places(subjects)
    with draft(folder) as place:
        for subject in track(range(subjects), f"Drawing {task} phantoms"):
            phantom = DRAW[task](seed, subject)
            name = f"{task}_{subject:03}"
            where = affine(phantom.label.shape, phantom.spacing)
            for channel, image in enumerate(phantom.image):
                voxels = np.rint(image).astype(np.int16)
                write_nifti(place / images[subject] / f"{name}_{channel:04}.nii.gz", voxels, where)
            if labels[subject]:
                write_nifti(place / labels[subject] / f"{name}.nii.gz", phantom.label, where)
        description = dataset(task, subjects, seed)
        write_text(place / "dataset.json", json.dumps(description, indent=2) + "\n")
    return folder


def check(folder: Path, subjects: int) -> None:
    """Refuse what cannot be written, before anything is."""
    if subjects < 3:
        raise UserError(f"Phantoms need at least 3 subjects (labelled, unlabelled and test), not {subjects}.")
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"The folder {folder} is not empty: delete it or name another one.")


def places(subjects: int) -> tuple[list[str], list[str]]:
    """The folder of each subject's image and of its label; what does not divide by three is unlabelled."""
    third = subjects // 3
    counts = (third, subjects - 2 * third, third)
    images = np.repeat(["imagesTr", "imagesUn", "imagesTs"], counts).tolist()
    labels = {"imagesTr": "labelsTr", "imagesUn": "", "imagesTs": "labelsTs"}
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


def affine(shape: tuple[int, ...], spacing: tuple[float, float, float]) -> np.ndarray:
    """Axes that point right, forward and up, with the origin in the middle."""
    matrix = np.diag([*spacing, 1.0])
    matrix[:3, 3] = -(np.array(shape) - 1) / 2 * spacing
    return matrix
