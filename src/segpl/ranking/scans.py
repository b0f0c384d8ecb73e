"""Which scans to rank, and which ones the run was trained on with their labels."""

from collections.abc import Sequence
from pathlib import Path

from segpl.data.cases import Case
from segpl.data.inputs import find_cases
from segpl.data.layouts import read_dataset
from segpl.foundation.errors import UserError
from segpl.inference.predictor import Predictor
from segpl.rundir import read_split, run_directories


def cases_to_rank(
    directory: Path,
    predictor: Predictor,
    inputs: Sequence[Path],
) -> tuple[Case, ...]:
    """The scans in `inputs` or, where none are given, the unlabelled scans of the run.

    Of several runs, those that none of them had the label of.
    """
    if inputs:
        return find_cases(inputs, predictor.task)
    first, *others = _names_in_splits(directory, "unlabelled")
    cases = _training_cases(predictor, first.intersection(*others))
    if not cases:
        raise UserError(
            f"{directory} has no unlabelled scan in {predictor.run.data}: name the scans to rank."
        )
    return cases


def labelled_cases(directory: Path, predictor: Predictor) -> tuple[Case, ...]:
    """The labelled scans of the training, or of any of several; none where they are gone."""
    names = set[str]().union(*_names_in_splits(directory, "labelled"))
    return _training_cases(predictor, names)


def _names_in_splits(directory: Path, part: str) -> list[set[str]]:
    """The cases of one part of each run's `split.json`; none if a run has no such file."""
    names = []
    for run in run_directories(directory):
        split = read_split(run) or {}
        names.append(set(split.get(part, [])))
    return names


def _training_cases(predictor: Predictor, names: set[str]) -> tuple[Case, ...]:
    """The training cases of these names that still exist, without their labels."""
    data = predictor.run.data
    if not names or not data.exists():
        return ()
    cases = [case for case in read_dataset(data).training if case.name in names]
    return tuple(case.unlabelled() for case in cases)
