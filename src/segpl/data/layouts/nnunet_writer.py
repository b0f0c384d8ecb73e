"""Write datasets in the nnU-Net v2 layout, for phantoms, repaired copies and exports."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from segpl.data.cases import Case, Task
from segpl.data.formats.image import Affine
from segpl.data.layouts.nnunet import IGNORE, channel_file
from segpl.foundation.files import file_name, write_nifti, write_text

ENDING = ".nii.gz"


def write_case(
    folder: Path,
    subset: str,
    name: str,
    channels: Sequence[Shaped[np.ndarray, "X Y Z"]],
    label: Shaped[np.ndarray, "X Y Z"] | None,
    affine: Affine,
) -> None:
    """Write a case to `images{subset}`, one file per channel, and its label to `labels{subset}`.

    `subset` is Tr, Un or Ts. Image and label go through the same writer with the same affine, so
    they share one grid.
    """
    images = folder / f"images{subset}"
    labels = folder / f"labels{subset}"
    name = file_name(name)
    for number, channel in enumerate(channels):
        file = channel_file(images, name, number, ENDING)
        write_nifti(file, channel, affine)
    if label is not None:
        write_nifti(labels / f"{name}{ENDING}", label, affine)


def write_description(folder: Path, task: Task, labelled_cases: int, **other_entries: Any) -> None:
    """Write `dataset.json` for a dataset with this number of labelled training cases."""
    channel_names = {str(number): name for number, name in enumerate(task.channels)}
    contents = {
        "channel_names": channel_names,
        **_label_entries(task),
        "numTraining": labelled_cases,
        "file_ending": ENDING,
        **other_entries,
    }
    text = json.dumps(contents, indent=2)
    write_text(folder / "dataset.json", f"{text}\n")


def _label_entries(task: Task) -> dict[str, Any]:
    """The label values by name; as region-based labels if any region has several values."""
    labels: dict[str, Any] = {"background": 0}
    ignore = {} if task.ignore is None else {IGNORE: task.ignore}
    is_region_based = any(len(region.values) != 1 for region in task.regions)
    if not is_region_based:
        for region in task.regions:
            labels[region.name] = region.values[0]
        return {"labels": labels | ignore}
    paints = []
    for region in task.regions:
        labels[region.name] = list(region.values)
        paints.append(region.paint)
    return {"labels": labels | ignore, "regions_class_order": paints}


def subjects_entry(cases: Iterable[Case]) -> Mapping[str, Any]:
    """The entry `subjects`, for cases that are not their own subject; empty if all are."""
    subjects = {}
    for case in cases:
        name = file_name(case.name)
        if case.subject != name:
            subjects[name] = case.subject
    return {"subjects": subjects} if subjects else {}
