"""Phantoms: made-up subjects with known labels, written as a data folder like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from segpl.data import cases
from segpl.data.layouts.nnunet_writer import write_case, write_description
from segpl.data.phantoms import tumour, vessels
from segpl.data.phantoms.brain import MODALITIES
from segpl.data.phantoms.fields import Phantom
from segpl.foundation.errors import UserError
from segpl.foundation.files import draft
from segpl.foundation.progress import track

__all__ = ["Phantom", "Task", "write_phantoms"]

Task = Literal["tumour", "vessels"]

DRAW = {"tumour": tumour.draw, "vessels": vessels.draw}
TASKS = {
    "tumour": cases.Task(
        tuple(MODALITIES),
        (
            cases.Region("whole tumour", (1, 2, 3), 1),
            cases.Region("tumour core", (2, 3), 2),
            cases.Region("enhancing core", (3,), 3),
        ),
    ),
    "vessels": cases.Task(("CT",), (cases.Region("vessel", (1,), 1),)),
}
PARTS = ("Tr", "Un", "Ts")
"""Labelled, unlabelled and test subjects."""


def write_phantoms(task: Task, folder: Path, subjects: int = 24, seed: int = 0) -> Path:
    """Write phantoms in nnU-Net's layout: a third labelled, a third unlabelled, a third for testing."""
    check(folder, subjects)
    folder = folder.resolve()
    with draft(folder) as place:
        for subject, part in enumerate(track(parts(subjects), f"Drawing {task} phantoms")):
            phantom = DRAW[task](seed, subject)
            channels = [np.rint(image).astype(np.int16) for image in phantom.image]
            label = None if part == "Un" else phantom.label
            where = affine(phantom.label.shape, phantom.spacing)
            write_case(place, part, f"{task}_{subject:03}", channels, label, where)
        words = (
            f"Phantoms, not patients: {subjects} made-up subjects drawn by segpl with seed {seed}."
        )
        write_description(
            place, TASKS[task], subjects // 3, name=f"{task} phantoms", description=words
        )
    return folder


def check(folder: Path, subjects: int) -> None:
    """Refuse what cannot be written, before anything is."""
    if subjects < 3:
        raise UserError(
            f"Phantoms need at least 3 subjects (labelled, unlabelled and test), not {subjects}."
        )
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"The folder {folder} is not empty: delete it or name another one.")


def parts(subjects: int) -> list[str]:
    """The part of each subject; what does not divide by three is unlabelled."""
    third = subjects // 3
    counts = (third, subjects - 2 * third, third)
    return np.repeat(PARTS, counts).tolist()


def affine(shape: tuple[int, ...], spacing: tuple[float, float, float]) -> np.ndarray:
    """Axes that point right, forward and up, with the origin in the middle."""
    matrix = np.diag([*spacing, 1.0])
    matrix[:3, 3] = -(np.array(shape) - 1) / 2 * spacing
    return matrix
