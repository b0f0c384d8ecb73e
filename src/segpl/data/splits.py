"""Which subjects a training learns from, which choose its weights, and which test it.

Splits are by subject. All parts come from one order of the labelled training subjects, which the
seed draws: first those that are held out for test, then the N labelled ones, then any further ones
for validation. All other training subjects lose their labels and serve as unlabelled scans.
"""

from dataclasses import dataclass
from typing import Any

from segpl.data.cases import Case, Dataset
from segpl.foundation.draws import Stream, generator
from segpl.foundation.errors import UserError

VERSION = 2
"""Raise it when the same settings would draw other subjects: a study must not mix both."""


@dataclass(frozen=True)
class TrainingCases:
    """All that training is given: no test case, and no label of an unlabelled case."""

    labelled: tuple[Case, ...]
    """Learnt from, with their labels."""
    unlabelled: tuple[Case, ...]
    validation: tuple[Case, ...]
    """Not learnt from: their labels choose the weights."""
    extra_validation: bool = False
    """Whether the validation subjects come on top of the N labelled ones instead of out of them."""

    @property
    def labelled_subjects(self) -> int:
        """How many subjects training sees a label of, for learning and for choosing weights."""
        return _count_subjects(self.labelled + self.validation)

    def record(self) -> dict[str, Any]:
        """The contents of `split.json`.

        The names of the cases in each part, the subjects that training sees in any way, and how
        many labelled subjects are used for what.
        """
        seen = {case.subject for case in self.labelled + self.unlabelled + self.validation}
        return {
            "labelled": [case.name for case in self.labelled],
            "unlabelled": [case.name for case in self.unlabelled],
            "validation": [case.name for case in self.validation],
            "subjects": sorted(seen),
            "labelled_subjects": {
                "total": self.labelled_subjects,
                "learning": _count_subjects(self.labelled),
                "validation": _count_subjects(self.validation),
                "extra_validation": self.extra_validation,
            },
        }


def default_validation(labelled: int) -> int:
    """How many of the N labelled subjects choose the weights: a tenth, so none where N is below 10.

    With few labels a subject is worth more as a training subject, and the weights of the last step
    serve: by then the learning rate has decayed to 0, and methods that average over time have
    averaged.
    """
    return labelled // 10


def training_cases(
    dataset: Dataset,
    labelled: int | None,
    seed: int,
    validation: int | None = None,
    test: int | None = None,
) -> TrainingCases:
    """The cases of a training that may see the labels of `labelled` subjects (None: of all).

    With `validation=None` the subjects that choose the weights are among the labelled ones, see
    `default_validation`. A number asks for that many further labelled subjects; it does not change
    who is labelled. Budgets are nested: subjects labelled at a budget of 4 are also so at 8.
    `test` is the number of subjects held out where no test folder has labels, a quarter by default.
    """
    order = _labelled_subjects(dataset, seed)
    available = order[_held_out(dataset, test) :]
    budget = _budget(dataset, len(available), labelled, validation or 0)
    chosen = available[:budget]
    if validation is None:
        learning_count = budget - default_validation(budget)
        learning = chosen[:learning_count]
        validating = chosen[learning_count:]
    else:
        learning = chosen
        validating = available[budget : budget + validation]
    kept_out = {*validating, *_test_subjects(dataset, seed, test)}
    return TrainingCases(
        labelled=_labelled_cases(dataset, learning),
        unlabelled=_unlabelled_cases(dataset, learning, kept_out),
        validation=_labelled_cases(dataset, validating),
        extra_validation=bool(validation),
    )


def cases_for_test(dataset: Dataset, seed: int, test: int | None = None) -> tuple[Case, ...]:
    """The labelled cases of the test folder; without any, those of `test` held-out subjects."""
    subjects = _test_subjects(dataset, seed, test)
    everyone = dataset.test + dataset.training
    return tuple(case for case in everyone if case.label and case.subject in subjects)


def _budget(dataset: Dataset, available: int, labelled: int | None, extra: int) -> int:
    """How many of the `available` subjects are labelled, where `extra` more are for validation."""
    if not available:
        raise UserError(f"{dataset.folder} has no labelled training case: label at least one scan.")
    most = available - extra
    there_are = f"{dataset.folder} has {available} labelled training subjects beside those for test"
    if most < 1:
        problem = f"so {extra} for validation leave none to learn from"
        raise UserError(f"{there_are}, {problem}: ask for fewer, or label more scans.")
    if labelled is None:
        return most
    if not 1 <= labelled <= most:
        wanted = f"--labelled {labelled}"
        if extra:
            wanted += f" and {extra} further ones for validation"
        raise UserError(f"{there_are}, so {wanted} cannot be had: ask for --labelled 1 to {most}.")
    return labelled


def _labelled_cases(dataset: Dataset, subjects: list[str]) -> tuple[Case, ...]:
    return tuple(case for case in dataset.training if case.label and case.subject in subjects)


def _unlabelled_cases(dataset: Dataset, learnt: list[str], kept_out: set[str]) -> tuple[Case, ...]:
    """All other training scans, a follow-up without a label of a labelled subject among them."""
    unlabelled = []
    for case in dataset.training:
        is_learnt_from = case.label is not None and case.subject in learnt
        if not is_learnt_from and case.subject not in kept_out:
            unlabelled.append(case.unlabelled())
    return tuple(unlabelled)


def _test_subjects(dataset: Dataset, seed: int, test: int | None) -> set[str]:
    held_out = _labelled_subjects(dataset, seed)[: _held_out(dataset, test)]
    return {case.subject for case in dataset.test} | set(held_out)


def _held_out(dataset: Dataset, test: int | None) -> int:
    """How many labelled training subjects must serve as test subjects."""
    if any(case.label for case in dataset.test):
        return 0
    labelled = len({case.subject for case in dataset.training if case.label})
    if test is None:
        return max(1, labelled // 4) if labelled >= 3 else 0
    if test >= labelled:
        raise UserError(
            f"{dataset.folder} has {labelled} labelled subjects, so {test} for test leave none "
            "to learn from: ask for fewer, or label more scans."
        )
    return test


def _labelled_subjects(dataset: Dataset, seed: int) -> list[str]:
    """Subjects with a label in the training folder, in the order that the seed draws."""
    training = {case.subject for case in dataset.training}
    shared = sorted(training & {case.subject for case in dataset.test})
    if shared:
        both = f"has subject {shared[0]} in training and in test"
        raise UserError(f"{dataset.folder} {both}: remove it from one.")
    subjects = sorted({case.subject for case in dataset.training if case.label})
    return [subjects[i] for i in generator(seed, Stream.SPLIT).permutation(len(subjects))]


def _count_subjects(cases: tuple[Case, ...]) -> int:
    return len({case.subject for case in cases})
