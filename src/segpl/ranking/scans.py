"""Which scans are to be ranked, and which ones the run has learnt from."""

import json
from collections.abc import Sequence
from pathlib import Path

from segpl.data.cases import Case
from segpl.data.inputs import find_cases
from segpl.data.layouts import read_dataset
from segpl.foundation.errors import UserError
from segpl.inference.predictor import Predictor
from segpl.rundir import SPLIT_FILE


def cases_to_rank(
    directory: Path, predictor: Predictor, inputs: Sequence[Path]
) -> tuple[Case, ...]:
    """The scans in `inputs` or, where none are given, those that the run had without a label."""
    if inputs:
        return find_cases(inputs, predictor.task)
    cases = _part(directory, predictor, "unlabelled")
    if not cases:
        raise UserError(
            f"{directory} knows of no unlabelled scan in {predictor.run.data}: name the scans to rank."
        )
    return cases


def labelled_cases(directory: Path, predictor: Predictor) -> tuple[Case, ...]:
    """The scans whose labels the run was trained on; none where they are no longer to be found."""
    return _part(directory, predictor, "labelled")


def _part(directory: Path, predictor: Predictor, part: str) -> tuple[Case, ...]:
    split, folder = directory / SPLIT_FILE, predictor.run.data
    if not split.is_file() or not folder.exists():
        return ()
    names = json.loads(split.read_text(encoding="utf-8"))[part]
    return tuple(case.unlabelled() for case in read_dataset(folder).training if case.name in names)
