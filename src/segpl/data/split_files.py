"""Split files: which subjects a training learns from, and which validate and test it.

A file in YAML or JSON names subjects, either in fixed parts

    train: [patient01, patient02]
    validation: [patient03]
    test: [patient04]
    unlabelled: [patient05, patient06]

or in folds, of which the setting `fold` chooses the one to test on; the others are learnt from:

    folds:
      - [patient01, patient02]
      - [patient03, patient04]

`validation` and `unlabelled` may be left out. Without `unlabelled`, the scans of all subjects that
the file does not name serve without a label, and so do those of `train` beyond `labelled`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict

from segpl.data.cases import Dataset
from segpl.foundation.errors import UserError
from segpl.foundation.named import validated
from segpl.foundation.plain_files import read_yaml_values
from segpl.foundation.suggestions import suggest


@dataclass(frozen=True)
class FixedSplit:
    """The subjects of each part."""

    file: Path
    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]
    unlabelled: tuple[str, ...] | None
    """None for all subjects that the file does not name."""


@dataclass(frozen=True)
class _Contents:
    """What a split file may hold."""

    # Subjects called 007 or 12 are numbers in YAML; the digits of 007 must be quoted to be kept.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", coerce_numbers_to_str=True
    )

    train: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] | None = None
    folds: tuple[tuple[str, ...], ...] = ()


def read_split_file(file: Path, fold: int | None, dataset: Dataset) -> FixedSplit:
    """The parts that a split file names, checked against the subjects of the data.

    A subject in two parts, one that the data do not have, and a subject without a label in train,
    validation or test are errors.
    """
    contents = _read_contents(file)
    if contents.folds:
        split = _split_of_fold(file, contents, fold)
    else:
        if fold is not None:
            raise UserError(
                f"fold is {fold}, but {file} has no folds: remove fold, or add 'folds'.",
                where=("fold",),
            )
        split = FixedSplit(
            file, contents.train, contents.validation, contents.test, contents.unlabelled
        )
    if not split.train:
        raise UserError(f"{file} names no subject to learn from: add them under 'train'.")
    _check_disjoint(split)
    _check_known(split, dataset)
    return split


def _read_contents(file: Path) -> _Contents:
    try:
        values = read_yaml_values(file)
    except OSError:
        raise UserError(
            f"{file} cannot be read: give a split file, in YAML or JSON.", where=("split",)
        ) from None
    except ValueError as error:
        raise UserError(f"{file} is not valid YAML ({error}): fix it.") from None
    names = ", ".join(entry.name for entry in fields(_Contents))
    if not isinstance(values, dict):
        raise UserError(f"{file} must name subjects under {names}.")
    return validated(_Contents, values, f"{file}: ")


def _split_of_fold(file: Path, contents: _Contents, fold: int | None) -> FixedSplit:
    """Test on one fold and learn from the others."""
    if contents.train or contents.validation or contents.test:
        raise UserError(f"{file} has folds and other parts: keep one of them.")
    count = len(contents.folds)
    if fold is None or fold >= count:
        raise UserError(
            f"{file} has {count} folds: choose the one to test on with --set fold=0 to "
            f"{count - 1}.",
            where=("fold",),
        )
    train: list[str] = []
    for number, subjects in enumerate(contents.folds):
        if number != fold:
            train.extend(subjects)
    return FixedSplit(file, tuple(train), (), contents.folds[fold], contents.unlabelled)


def _check_disjoint(split: FixedSplit) -> None:
    seen: dict[str, str] = {}
    for part, subjects in _parts(split):
        for subject in subjects:
            if subject in seen:
                raise UserError(
                    f"{split.file} names subject {subject} twice, in {seen[subject]} and in "
                    f"{part}: keep one of them."
                )
            seen[subject] = part


def _check_known(split: FixedSplit, dataset: Dataset) -> None:
    in_training = {case.subject for case in dataset.training}
    in_test = {case.subject for case in dataset.test}
    labelled = {case.subject for case in dataset.training + dataset.test if case.label}
    for part, subjects in _parts(split):
        for subject in subjects:
            if subject not in in_training | in_test:
                hint = suggest(subject, in_training | in_test)
                raise UserError(
                    f"{split.file} names subject {subject}, which {dataset.folder} does not have: "
                    f"correct the name.{hint}"
                )
            if part != "unlabelled" and subject not in labelled:
                raise UserError(
                    f"{split.file} has subject {subject} in {part}, but {dataset.folder} has no "
                    "label of it: name it under 'unlabelled', or label it."
                )
            if part != "test" and subject in in_test:
                raise UserError(
                    f"{split.file} has subject {subject} in {part}, but it is in the test folder "
                    f"of {dataset.folder}: name it under 'test', or move its files."
                )


def _parts(split: FixedSplit) -> Iterable[tuple[str, Any]]:
    """Each part with its subjects."""
    yield "train", split.train
    yield "validation", split.validation
    yield "test", split.test
    yield "unlabelled", split.unlabelled or ()
