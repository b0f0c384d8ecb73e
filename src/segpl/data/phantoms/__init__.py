"""Phantoms: synthetic subjects with known labels, written as an ordinary data folder."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from segpl.data import cases
from segpl.data.layouts.nnunet_writer import write_case, write_description
from segpl.data.phantoms import tumour, vessels
from segpl.data.phantoms.brain import MODALITIES
from segpl.data.phantoms.primitives import Phantom
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
LABELLED = "Tr"
UNLABELLED = "Un"
TEST = "Ts"


def write_phantoms(task: Task, folder: Path, subjects: int = 24, seed: int = 0) -> Path:
    """Write phantoms in nnU-Net's layout.

    A third is labelled, a third unlabelled, and a third for testing. Returns the absolute path of
    the folder.
    """
    _check(folder, subjects)
    folder = folder.resolve()
    with draft(folder) as incomplete:
        splits = track(_splits(subjects), f"Drawing {task} phantoms")
        for subject, split in enumerate(splits):
            phantom = DRAW[task](seed, subject)
            _write_phantom(incomplete, split, f"{task}_{subject:03}", phantom)
        write_description(
            incomplete,
            TASKS[task],
            subjects // 3,
            name=f"{task} phantoms",
            description=(
                f"Phantoms, not patients: {subjects} made-up subjects "
                f"drawn by segpl with seed {seed}."
            ),
        )
    return folder


def _check(folder: Path, subjects: int) -> None:
    """Reject what cannot be written, before anything is written."""
    if subjects < 3:
        raise UserError(
            f"Phantoms need at least 3 subjects (labelled, unlabelled and test), not {subjects}."
        )
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"The folder {folder} is not empty: delete it or choose another one.")


def _splits(subjects: int) -> list[str]:
    """The split of each subject; those left over by the division into thirds are unlabelled."""
    third = subjects // 3
    unlabelled = subjects - 2 * third
    return [LABELLED] * third + [UNLABELLED] * unlabelled + [TEST] * third


def _write_phantom(folder: Path, split: str, name: str, phantom: Phantom) -> None:
    channels = [np.rint(channel).astype(np.int16) for channel in phantom.image]
    label = None if split == UNLABELLED else phantom.label
    affine = _centred_affine(phantom.label.shape, phantom.spacing)
    write_case(folder, split, name, channels, label, affine)


def _centred_affine(shape: tuple[int, ...], spacing: tuple[float, float, float]) -> np.ndarray:
    """Axes that point right, forward and up, with the origin in the middle."""
    affine = np.diag([*spacing, 1.0])
    affine[:3, 3] = -(np.array(shape) - 1) / 2 * spacing
    return affine
