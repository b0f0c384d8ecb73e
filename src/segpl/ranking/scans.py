"""Which scans to rank, and which ones the run was trained on with their labels."""

from collections.abc import Sequence
from pathlib import Path

from segpl.data.cases import Case
from segpl.data.inputs import find_cases
from segpl.data.layouts import read_dataset
from segpl.foundation.errors import UserError
from segpl.inference.predictor import Predictor
from segpl.rundir import read_split


def cases_to_rank(
    directory: Path,
    predictor: Predictor,
    inputs: Sequence[Path],
) -> tuple[Case, ...]:
    """The scans in `inputs` or, where none are given, the unlabelled scans of the run."""
    if inputs:
        return find_cases(inputs, predictor.task)
    cases = _cases_in_split(directory, predictor, "unlabelled")
    if not cases:
        raise UserError(
            f"{directory} has no unlabelled scan in {predictor.run.data}: name the scans to rank."
        )
    return cases


def labelled_cases(directory: Path, predictor: Predictor) -> tuple[Case, ...]:
    """The labelled scans of the training; none where they no longer exist."""
    return _cases_in_split(directory, predictor, "labelled")


def _cases_in_split(
    directory: Path,
    predictor: Predictor,
    split: str,
) -> tuple[Case, ...]:
    """The cases of one part of `split.json`, without their labels."""
    recorded = read_split(directory)
    data = predictor.run.data
    if recorded is None or not data.exists():
        return ()
    names = recorded[split]
    cases = [case for case in read_dataset(data).training if case.name in names]
    return tuple(case.unlabelled() for case in cases)
