"""A data set for nnU-Net v2: the labels as they were drawn, and the run's pseudo-labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import UInt

from segpl.data.cases import Case, Dataset, Region, Task
from segpl.data.formats import read_image
from segpl.data.layouts import read_dataset
from segpl.data.layouts.nnunet_writer import subjects_entry, write_case, write_description
from segpl.data.preparation import ignored_voxels
from segpl.data.scans import Scan, channels_of, complaints, read_scan
from segpl.exporting.output_paths import new_folder
from segpl.foundation.errors import UserError
from segpl.foundation.progress import console, track
from segpl.foundation.tables import write_frame
from segpl.inference.predictor import Predictor, load
from segpl.rundir import required_split

ACCEPTED_FILE = "accepted.csv"
"""Which pseudo-labels were accepted, with their expected Dice."""
ACCEPT = 0.8
"""The smallest expected Dice with which a pseudo-label is accepted."""


class PseudoLabel(NamedTuple):
    """The run's prediction of an unlabelled case."""

    label: UInt[np.ndarray, "X Y Z"]
    expected_dice: float
    """Mean over the regions with a mask; NaN where all masks are empty."""


class Decision(NamedTuple):
    """Whether the pseudo-label of a case was accepted."""

    case: Case
    expected_dice: float
    accepted: bool


class TrainingCases(NamedTuple):
    """The cases of a run without its test cases."""

    labelled: list[Case]
    """With validation cases, because nnU-Net draws folds of its own."""
    unlabelled: list[Case]


@dataclass(frozen=True)
class LabelNumbering:
    """Label values without gaps, as nnU-Net needs them: 1, 2, 4 become 1, 2, 3."""

    known: tuple[int, ...]
    """The old values in ascending order; the value to ignore is the last, as nnU-Net demands."""
    ignore: int | None = None
    """The old value to ignore, if the labels hold it."""

    @classmethod
    def of(cls, regions: Sequence[Region], ignore: int | None = None) -> "LabelNumbering":
        """The numbering of all values that a label or a predicted mask may hold."""
        known: set[int] = set()
        for region in regions:
            known.update(region.values)
            known.add(region.paint)
        values = sorted(known - {ignore})
        if ignore is not None:
            values.append(ignore)
        return cls(tuple(values), ignore)

    def number(self, value: int) -> int:
        """The new value of an old one."""
        return self.known.index(value) + 1

    def task(self, task: Task) -> Task:
        """The task in the new values."""
        regions = []
        for region in task.regions:
            values = tuple(self.number(value) for value in region.values)
            regions.append(Region(region.name, values, self.number(region.paint)))
        ignore = None if self.ignore is None else self.number(self.ignore)
        return Task(task.channels, tuple(regions), ignore)

    def label(self, voxels: np.ndarray) -> UInt[np.ndarray, "X Y Z"]:
        """A label map in the new values; 0 stays 0."""
        old_values, indices = np.unique(voxels, return_inverse=True)
        smallest_dtype = np.min_scalar_type(len(self.known))
        new_values = np.zeros(len(old_values), dtype=smallest_dtype)
        for index, value in enumerate(old_values):
            if value != 0:
                new_values[index] = self.number(int(value))
        return new_values[indices].reshape(voxels.shape)


def export_nnunet(directory: Path, folder: Path, accept: float = ACCEPT) -> Path:
    """Write `imagesTr`, `labelsTr`, `dataset.json` and `accepted.csv`, and return `folder`.

    Labelled and validation cases keep their labels. An unlabelled case is written with its
    pseudo-label if the expected Dice is at least `accept`. Test cases are left out.
    """
    predictor = load(directory)
    task = predictor.task
    dataset = read_dataset(predictor.run.data)
    if dataset.task != task:
        raise UserError(
            f"{dataset.folder} has other channels or regions than {directory} was trained on: "
            "restore the data of the training."
        )
    cases = training_cases(directory, dataset)
    numbering = LabelNumbering.of(task.regions, _value_to_ignore(cases.labelled, task))
    with new_folder(folder) as draft:
        _write_labelled(draft, cases.labelled, task, numbering)
        decisions = _write_pseudo_labelled(draft, cases.unlabelled, predictor, numbering, accept)
        write_frame(draft / ACCEPTED_FILE, _decision_table(decisions), float_format="%.4f")
        accepted = [decision.case for decision in decisions if decision.accepted]
        written = [*cases.labelled, *accepted]
        method = predictor.run.method.name()
        write_description(
            draft,
            numbering.task(task),
            len(written),
            **subjects_entry(written),
            description=f"Labels, and pseudo-labels by {method} of segpl: see {ACCEPTED_FILE}.",
        )
    console.print(
        f"{len(cases.labelled)} labelled cases and {len(accepted)} of {len(decisions)} "
        f"pseudo-labels are in {folder}"
    )
    return folder


def _value_to_ignore(cases: Sequence[Case], task: Task) -> int | None:
    """The value of ignored voxels, if any of these labels has some."""
    for case in cases:
        if case.label and ignored_voxels(read_image(case.label), task) is not None:
            return task.ignored_value
    return None


def training_cases(directory: Path, dataset: Dataset) -> TrainingCases:
    """The cases of `split.json`, as long as the data set still holds all of them."""
    split = required_split(directory)
    known = {case.name: case for case in dataset.training}
    labelled_names = [*split["labelled"], *split["validation"]]
    unlabelled_names = split["unlabelled"]
    for name in (*labelled_names, *unlabelled_names):
        if name not in known:
            raise _changed_data(name, dataset.folder, directory)
    for name in labelled_names:
        if not known[name].label:
            raise _changed_data(name, dataset.folder, directory)
    labelled = [known[name] for name in labelled_names]
    unlabelled = [known[name].unlabelled() for name in unlabelled_names]
    return TrainingCases(labelled, unlabelled)


def _changed_data(name: str, folder: Path, directory: Path) -> UserError:
    return UserError(
        f"{folder} no longer has {name} as {directory} was trained on it: put it back."
    )


def _write_labelled(
    folder: Path,
    cases: Sequence[Case],
    task: Task,
    numbering: LabelNumbering,
) -> None:
    for case in track(cases, "Copying labelled scans"):
        scan = _read_checked(case, task)
        assert scan.label, "labelled and validation cases have labels"
        _write(folder, scan, numbering.label(scan.label.values[0]))


def _write_pseudo_labelled(
    folder: Path,
    cases: Sequence[Case],
    predictor: Predictor,
    numbering: LabelNumbering,
    accept: float,
) -> list[Decision]:
    """Predict each case, and write it if its pseudo-label is accepted."""
    decisions = []
    for case in track(cases, "Labelling unlabelled scans"):
        prediction = pseudo_label(case, predictor)
        accepted = prediction.expected_dice >= accept  # never true for NaN
        if accepted:
            scan = _read_checked(case, predictor.task)
            _write(folder, scan, numbering.label(prediction.label))
        decisions.append(Decision(case, prediction.expected_dice, accepted))
    return decisions


def pseudo_label(case: Case, predictor: Predictor) -> PseudoLabel:
    """The run's label map of a case on the case's own grid, and its expected Dice."""
    prediction = predictor.predict_case(case)
    defined = []
    for numbers in prediction.numbers.values():
        if not np.isnan(numbers.expected_dice):
            defined.append(numbers.expected_dice)
    expected_dice = float("nan")
    if defined:
        expected_dice = float(np.mean(defined))
    return PseudoLabel(prediction.mask, expected_dice)


def _decision_table(decisions: Sequence[Decision]) -> pd.DataFrame:
    """The rows of `accepted.csv`."""
    rows: list[dict[str, Any]] = []
    for decision in decisions:
        rows.append(
            {
                "case": decision.case.name,
                "subject": decision.case.subject,
                "expected_dice": decision.expected_dice,
                "accepted": decision.accepted,
            }
        )
    return pd.DataFrame(rows, columns=["case", "subject", "expected_dice", "accepted"])


def _read_checked(case: Case, task: Task) -> Scan:
    """Read a case; one that does not fit the task is an error."""
    scan = read_scan(case)
    for complaint in complaints(scan, task):
        raise UserError(complaint)
    return scan


def _write(folder: Path, scan: Scan, label: UInt[np.ndarray, "X Y Z"]) -> None:
    channels = [_storable(channel) for channel in channels_of(scan.images)]
    write_case(folder, "Tr", scan.case.name, channels, label, scan.images[0].affine)


def _storable(channel: np.ndarray) -> np.ndarray:
    """Integers of up to 32 bits stay; all else becomes 32-bit floats, as nnU-Net reads it."""
    is_integer = channel.dtype.kind in "iu"
    if is_integer and channel.dtype.itemsize <= 4:
        return channel
    return channel.astype(np.float32)
