"""Data sets written in nnU-Net's layout: what phantoms, repaired copies and exports share."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from segpl.data.cases import Case, Task
from segpl.foundation.files import file_name, write_nifti, write_text

ENDING = ".nii.gz"


def write_case(
    folder: Path,
    part: str,
    name: str,
    channels: Sequence[Shaped[np.ndarray, "X Y Z"]],
    label: Shaped[np.ndarray, "X Y Z"] | None,
    affine: Float[np.ndarray, "4 4"],
) -> None:
    """Write a case to `images{part}`, one file per channel, and its label, if any, to `labels{part}`.

    Image and label go through the same writer with the same affine, so they share one grid.
    """
    name = file_name(name)
    for number, channel in enumerate(channels):
        write_nifti(folder / f"images{part}/{name}_{number:04}{ENDING}", channel, affine)
    if label is not None:
        write_nifti(folder / f"labels{part}/{name}{ENDING}", label, affine)


def write_description(folder: Path, task: Task, training: int, **more: Any) -> None:
    """Write `dataset.json` for `training` labelled cases; `more` goes into it as it is."""
    contents = {
        "channel_names": {str(number): name for number, name in enumerate(task.channels)},
        **_labels(task),
        "numTraining": training,
        "file_ending": ENDING,
        **more,
    }
    write_text(folder / "dataset.json", json.dumps(contents, indent=2) + "\n")


def _labels(task: Task) -> dict[str, Any]:
    """Label values by name. Where regions are unions of values, as nnU-Net's region-based labels."""
    labels: dict[str, Any] = {"background": 0}
    if all(len(region.values) == 1 for region in task.regions):
        for region in task.regions:
            (labels[region.name],) = region.values
        return {"labels": labels}
    for region in task.regions:
        labels[region.name] = list(region.values)
    return {"labels": labels, "regions_class_order": [region.paint for region in task.regions]}


def subjects_entry(cases: Iterable[Case]) -> Mapping[str, Any]:
    """The entry that says which case is of which subject; empty where each case is its own."""
    subjects = {}
    for case in cases:
        name = file_name(case.name)
        if case.subject != name:
            subjects[name] = case.subject
    return {"subjects": subjects} if subjects else {}
