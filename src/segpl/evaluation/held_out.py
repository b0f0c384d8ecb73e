"""The test cases of a run: never a subject that its training has seen."""

from pathlib import Path
from typing import Any

from segpl.data.cases import Case, Dataset
from segpl.data.layouts import read_dataset
from segpl.data.splits import labelled_cases_of
from segpl.foundation.errors import UserError
from segpl.foundation.progress import console
from segpl.inference.predictor import Predictor
from segpl.settings.run import Run
from segpl.settings.subjects import held_out_cases_of


def find_test_cases(
    predictor: Predictor,
    directory: Path,
    split: dict[str, Any],
    data: Path | None,
) -> list[Case]:
    """The labelled test cases of the run's own data, or of `data`; at least one.

    `split` is the run's record of the cases and subjects that its training has seen.
    """
    run = predictor.run
    folder = run.data
    is_other_data = False
    if data is not None and data.resolve() != run.data.resolve():
        folder = data.resolve()
        is_other_data = True
    dataset = read_dataset(folder)
    if dataset.task != predictor.task:
        raise UserError(
            f"{folder} has other channels or regions than {directory} was trained on: "
            "give data with the same."
        )
    if is_other_data:
        cases = _cases_of_other_data(dataset, split)
    else:
        cases = _cases_of_own_data(dataset, run, split)
    if not cases:
        raise UserError(
            f"{dataset.folder} has no labelled test case: add labelled scans to its test folder."
        )
    return cases


def _cases_of_own_data(dataset: Dataset, run: Run, split: dict[str, Any]) -> list[Case]:
    """The cases that the run's seed holds out, or that its split names.

    Labels that were added since may change the split, so subjects that the run has seen are left
    out.
    """
    if "test_subjects" in split:
        held_out = labelled_cases_of(dataset, split["test_subjects"])
    else:
        held_out = held_out_cases_of(run, dataset)
    return [case for case in held_out if case.subject not in split["subjects"]]


def _cases_of_other_data(dataset: Dataset, split: dict[str, Any]) -> list[Case]:
    """The test folder of other data or, where it has none, everything that is labelled.

    The other data may be a copy of the run's own, so subjects whose names the run knows are left
    out.
    """
    in_test_folder = [case for case in dataset.test if case.label]
    if in_test_folder:
        return in_test_folder
    labelled = [case for case in dataset.training if case.label]
    unseen = [case for case in labelled if case.subject not in split["subjects"]]
    left_out = len(labelled) - len(unseen)
    if left_out:
        console.print(
            f"{dataset.folder}: {left_out} cases are left out, because the run was trained on "
            "subjects with the same names."
        )
    return unseen
