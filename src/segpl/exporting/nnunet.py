"""A run's pseudo-labels as a data set for nnU-Net v2: what was labelled as it is, what was not as the run sees it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, UInt
from torch import Tensor

from segpl.data.cases import Case, Dataset, Region, Task
from segpl.data.formats import read_image
from segpl.data.frames import Frame
from segpl.data.layouts import read_dataset
from segpl.data.preparation import Scan, channels_of, complaints, load, read, unprepared
from segpl.exporting.places import new_folder
from segpl.exporting.program import Trained, read_trained
from segpl.foundation.device import choose_device
from segpl.foundation.errors import UserError
from segpl.foundation.files import file_name, write_nifti, write_text
from segpl.foundation.progress import console, track
from segpl.inference.windows import fold, mask, predict_volume
from segpl.settings.run import SPLIT_FILE

ACCEPTED_FILE = "accepted.csv"
ACCEPT = 0.8
"""The expected Dice from which on a pseudo-label is taken."""


class PseudoLabel(NamedTuple):
    """What the run makes of an unlabelled case."""

    label: UInt[np.ndarray, "X Y Z"]
    expected_dice: float
    """NaN where nothing was found."""


@dataclass(frozen=True)
class Values:
    """nnU-Net wants label values without gaps: 1, 2, 4 become 1, 2, 3."""

    known: tuple[int, ...]

    @classmethod
    def of(cls, regions: Sequence[Region]) -> "Values":
        """All values that a label or a painted mask may hold."""
        return cls(tuple(sorted({value for region in regions for value in (*region.values, region.paint)})))

    def __getitem__(self, value: int) -> int:
        return self.known.index(value) + 1

    def label(self, voxels: np.ndarray) -> UInt[np.ndarray, "X Y Z"]:
        """A label map in the new values."""
        found, places = np.unique(voxels, return_inverse=True)
        new = np.array([self[int(value)] if value else 0 for value in found], np.min_scalar_type(len(self.known)))
        return new[places].reshape(voxels.shape)


def export_nnunet(directory: Path, folder: Path, accept: float = ACCEPT) -> Path:
    """Write `imagesTr`, `labelsTr`, `dataset.json`, and in `accepted.csv` which pseudo-labels went in and why.

    Labelled and validation cases keep their labels, for nnU-Net draws folds of its own; test cases stay out.
    """
    trained = read_trained(directory)
    dataset = read_dataset(trained.run.data)
    if dataset.task != trained.task:
        raise UserError(f"{dataset.folder} has other channels or regions than {directory} was trained on: mend it.")
    drawn, unlabelled = _parts(directory, dataset)
    values = Values.of(trained.task.regions)
    with new_folder(folder) as draft:
        for case in track(drawn, "Copying labelled scans"):
            scan = _sound(case, trained.task)
            assert scan.label, "labelled and validation cases have labels"
            _write(draft, scan, values.label(scan.label.values[0]))
        rows = list(_pseudo_labelled(draft, unlabelled, trained, values, accept))
        taken = [row["case"] for row in rows if row["accepted"]]
        columns = ["case", "subject", "expected_dice", "accepted"]
        write_text(draft / ACCEPTED_FILE, pd.DataFrame(rows, columns=columns).to_csv(index=False, float_format="%.4f"))
        cases = [*drawn, *(case for case in unlabelled if case.name in taken)]
        write_text(draft / "dataset.json", json.dumps(description(trained, cases, values), indent=2) + "\n")
    console.print(f"{len(drawn)} labelled cases, and {len(taken)} of {len(rows)} pseudo-labels -> {folder}")
    return folder


def expected_dice(p: Float[Tensor, "K *space"], found: Bool[Tensor, "K *space"]) -> float:
    """The Dice that the probabilities promise: 2 sum(p m) / (sum(p) + sum(m)), meaned over the regions found."""
    p, m = p.flatten(1).double(), found.flatten(1).double()
    each = 2 * (p * m).sum(1) / (p.sum(1) + m.sum(1))
    return float(each[m.any(1)].mean())


def description(trained: Trained, cases: Sequence[Case], values: Values) -> dict[str, Any]:
    """The contents of dataset.json; nested regions are nnU-Net's region-based labels."""
    task = trained.task
    nested = any(len(region.values) > 1 for region in task.regions)
    labels = {region.name: [values[value] for value in region.values] for region in task.regions}
    order = {"regions_class_order": [values[region.paint] for region in task.regions]} if nested else {}
    subjects = {file_name(case.name): case.subject for case in cases}
    subjects = {name: subject for name, subject in subjects.items() if subject != name}
    return {
        "channel_names": {str(place): name for place, name in enumerate(task.channels)},
        "labels": {"background": 0, **(labels if nested else {name: value for name, (value,) in labels.items()})},
        **order,
        "numTraining": len(cases),
        "file_ending": ".nii.gz",
        **({"subjects": subjects} if subjects else {}),
        "description": f"Labels, and pseudo-labels by {trained.run.method.name()} of segpl: see {ACCEPTED_FILE}.",
    }


def _parts(directory: Path, dataset: Dataset) -> tuple[list[Case], list[Case]]:
    """The labelled and validation cases, and the unlabelled ones, as the run drew them."""
    file = directory / SPLIT_FILE
    if not file.is_file():
        raise UserError(f"{file} is missing, so nobody knows which cases are test cases: train the run again.")
    split = json.loads(file.read_text(encoding="utf-8"))
    known = {case.name: case for case in dataset.training}
    gone = [name for part in ("labelled", "validation", "unlabelled") for name in split[part] if name not in known]
    gone += [name for part in ("labelled", "validation") for name in split[part] if not known[name].label]
    if gone:
        raise UserError(f"{dataset.folder} no longer has {gone[0]} as {directory} was trained on it: put it back.")
    drawn = [known[name] for part in ("labelled", "validation") for name in split[part]]
    return drawn, [known[name].unlabelled() for name in split["unlabelled"]]


def _pseudo_labelled(
    draft: Path, cases: Sequence[Case], trained: Trained, values: Values, accept: float
) -> Iterator[dict[str, Any]]:
    """Predict each case, write it if it is good enough, and tell."""
    device = choose_device()
    for case in track(cases, "Labelling unlabelled scans"):
        found = pseudo_label(case, trained, device)
        accepted = found.expected_dice >= accept  # never of NaN
        if accepted:
            _write(draft, _sound(case, trained.task), values.label(found.label))
        yield {
            "case": case.name,
            "subject": case.subject,
            "expected_dice": found.expected_dice,
            "accepted": accepted,
        }


def pseudo_label(case: Case, trained: Trained, device: torch.device) -> PseudoLabel:
    """The run's mask of a case on the case's own grid, and how good it promises to be."""
    run, model = trained.run, trained.model.to(device)
    x = load(case, trained.task, run.preparation).x.to(device)
    image = read_image(case.images[0])
    p = predict_volume(lambda window: run.method.predict(model, window), x, run.patch).cpu()
    p = unprepared(p, Frame(image.values.shape[1:], image.affine, run.orientation))
    return PseudoLabel(fold(mask(p), trained.task.regions), expected_dice(p.mean(0), mask(p)))


def _sound(case: Case, task: Task) -> Scan:
    scan = read(case)
    for sentence in complaints(scan, task):
        raise UserError(sentence)
    return scan


def _write(draft: Path, scan: Scan, label: UInt[np.ndarray, "X Y Z"]) -> None:
    """Image and label through the same writer: no reader can then find them in different places."""
    name, affine = file_name(scan.case.name), scan.images[0].affine
    for place, channel in enumerate(channels_of(scan)):
        write_nifti(draft / f"imagesTr/{name}_{place:04}.nii.gz", _storable(channel), affine)
    write_nifti(draft / f"labelsTr/{name}.nii.gz", label, affine)


def _storable(channel: np.ndarray) -> np.ndarray:
    """Whole numbers of up to 32 bits stay; what nnU-Net would read as 32-bit floats anyway becomes that."""
    whole = channel.dtype.kind in "iu" and channel.dtype.itemsize <= 4
    return channel if whole else channel.astype(np.float32)
