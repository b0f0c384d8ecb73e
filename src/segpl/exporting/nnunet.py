"""A run's pseudo-labels as a data set for nnU-Net v2: what was labelled as it is, what was not as the run sees it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import UInt

from segpl.data.cases import Case, Dataset, Region, Task
from segpl.data.layouts import read_dataset
from segpl.data.layouts.nnunet_writer import subjects_entry, write_case, write_description
from segpl.data.preparation import Scan, channels_of, complaints, read
from segpl.exporting.places import new_folder
from segpl.foundation.errors import UserError
from segpl.foundation.files import write_text
from segpl.foundation.progress import console, track
from segpl.inference.predictor import Predictor, load
from segpl.rundir import SPLIT_FILE

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
        return cls(
            tuple(sorted({value for region in regions for value in (*region.values, region.paint)}))
        )

    def __getitem__(self, value: int) -> int:
        return self.known.index(value) + 1

    def task(self, task: Task) -> Task:
        """The task in the new values."""
        regions = []
        for region in task.regions:
            renumbered = tuple(self[value] for value in region.values)
            regions.append(Region(region.name, renumbered, self[region.paint]))
        return Task(task.channels, tuple(regions))

    def label(self, voxels: np.ndarray) -> UInt[np.ndarray, "X Y Z"]:
        """A label map in the new values."""
        found, places = np.unique(voxels, return_inverse=True)
        new = np.array(
            [self[int(value)] if value else 0 for value in found],
            np.min_scalar_type(len(self.known)),
        )
        return new[places].reshape(voxels.shape)


def export_nnunet(directory: Path, folder: Path, accept: float = ACCEPT) -> Path:
    """Write `imagesTr`, `labelsTr`, `dataset.json`, and in `accepted.csv` which pseudo-labels went in and why.

    Labelled and validation cases keep their labels, for nnU-Net draws folds of its own; test cases stay out.
    """
    predictor = load(directory)
    dataset = read_dataset(predictor.run.data)
    if dataset.task != predictor.task:
        raise UserError(
            f"{dataset.folder} has other channels or regions than {directory} was trained on: mend it."
        )
    drawn, unlabelled = _parts(directory, dataset)
    values = Values.of(predictor.task.regions)
    with new_folder(folder) as draft:
        for case in track(drawn, "Copying labelled scans"):
            scan = _sound(case, predictor.task)
            assert scan.label, "labelled and validation cases have labels"
            _write(draft, scan, values.label(scan.label.values[0]))
        rows = list(_pseudo_labelled(draft, unlabelled, predictor, values, accept))
        taken = [row["case"] for row in rows if row["accepted"]]
        columns = ["case", "subject", "expected_dice", "accepted"]
        write_text(
            draft / ACCEPTED_FILE,
            pd.DataFrame(rows, columns=columns).to_csv(index=False, float_format="%.4f"),
        )
        cases = [*drawn, *(case for case in unlabelled if case.name in taken)]
        method = predictor.run.method.name()
        said = f"Labels, and pseudo-labels by {method} of segpl: see {ACCEPTED_FILE}."
        task = values.task(predictor.task)
        write_description(draft, task, len(cases), **subjects_entry(cases), description=said)
    console.print(
        f"{len(drawn)} labelled cases, and {len(taken)} of {len(rows)} pseudo-labels -> {folder}"
    )
    return folder


def _parts(directory: Path, dataset: Dataset) -> tuple[list[Case], list[Case]]:
    """The labelled and validation cases, and the unlabelled ones, as the run drew them."""
    file = directory / SPLIT_FILE
    if not file.is_file():
        raise UserError(
            f"{file} is missing, so nobody knows which cases are test cases: train the run again."
        )
    split = json.loads(file.read_text(encoding="utf-8"))
    known = {case.name: case for case in dataset.training}
    gone = [
        name
        for part in ("labelled", "validation", "unlabelled")
        for name in split[part]
        if name not in known
    ]
    gone += [
        name for part in ("labelled", "validation") for name in split[part] if not known[name].label
    ]
    if gone:
        raise UserError(
            f"{dataset.folder} no longer has {gone[0]} as {directory} was trained on it: put it back."
        )
    drawn = [known[name] for part in ("labelled", "validation") for name in split[part]]
    return drawn, [known[name].unlabelled() for name in split["unlabelled"]]


def _pseudo_labelled(
    draft: Path, cases: Sequence[Case], predictor: Predictor, values: Values, accept: float
) -> Iterator[dict[str, Any]]:
    """Predict each case, write it if it is good enough, and tell."""
    for case in track(cases, "Labelling unlabelled scans"):
        found = pseudo_label(case, predictor)
        accepted = found.expected_dice >= accept  # never of NaN
        if accepted:
            _write(draft, _sound(case, predictor.task), values.label(found.label))
        yield {
            "case": case.name,
            "subject": case.subject,
            "expected_dice": found.expected_dice,
            "accepted": accepted,
        }


def pseudo_label(case: Case, predictor: Predictor) -> PseudoLabel:
    """The run's mask of a case on the case's own grid, and its expected Dice over the regions found."""
    prediction = predictor.predict_case(case)
    found = []
    for numbers in prediction.numbers.values():
        if not np.isnan(numbers.expected_dice):
            found.append(numbers.expected_dice)
    expected = float(np.mean(found)) if found else float("nan")
    return PseudoLabel(prediction.mask, expected)


def _sound(case: Case, task: Task) -> Scan:
    scan = read(case)
    for sentence in complaints(scan, task):
        raise UserError(sentence)
    return scan


def _write(draft: Path, scan: Scan, label: UInt[np.ndarray, "X Y Z"]) -> None:
    channels = [_storable(channel) for channel in channels_of(scan.images)]
    write_case(draft, "Tr", scan.case.name, channels, label, scan.images[0].affine)


def _storable(channel: np.ndarray) -> np.ndarray:
    """Whole numbers of up to 32 bits stay; what nnU-Net would read as 32-bit floats anyway becomes that."""
    whole = channel.dtype.kind in "iu" and channel.dtype.itemsize <= 4
    return channel if whole else channel.astype(np.float32)
