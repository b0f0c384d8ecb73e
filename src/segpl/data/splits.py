"""Split a dataset into labelled, unlabelled, validation and test cases.

Splits are by subject. The seed draws one order of the labelled training subjects. The first of them
are held out for testing, the next N are labelled, and any further ones asked for are validation
subjects. All other training subjects, or some of them, lose their labels and serve as unlabelled
scans. A split file (`segpl.data.split_files`) says instead which subjects may be labelled and which
are for validation and test.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from segpl.data.cases import Cases, Dataset
from segpl.data.split_files import FixedSplit
from segpl.foundation.draws import Stream, generator
from segpl.foundation.errors import UserError

VERSION = 2
"""Increase it when the same settings draw other subjects: a study must not mix both."""


@dataclass(frozen=True)
class TrainingCases:
    """All cases that training sees: no test case, and no label of an unlabelled case."""

    labelled: Cases
    """Training learns from these cases and their labels."""
    unlabelled: Cases
    validation: Cases
    """Training does not learn from these cases; their labels choose the weights."""
    extra_validation: bool = False
    """Whether the validation subjects are additional to the N labelled ones, not among them."""
    earlier_subjects: frozenset[str] = frozenset()
    """The subjects that the run has seen whose weights this training starts from."""
    test_subjects: frozenset[str] | None = None
    """The names of the test subjects, where the seed and the data alone do not determine them."""

    @property
    def labelled_subjects(self) -> int:
        """The number of subjects whose labels training sees, to learn from or to choose weights."""
        return len(_subjects(self.labelled + self.validation))

    @property
    def unlabelled_subjects(self) -> int:
        """The number of subjects with an unlabelled case."""
        return len(_subjects(self.unlabelled))

    def record(self) -> dict[str, Any]:
        """The contents of `split.json`.

        The names of the cases of each kind, all subjects that training or an earlier one sees, and
        the number of labelled subjects for learning and for validation.
        """
        all_cases = self.labelled + self.unlabelled + self.validation
        record = {
            "labelled": [case.name for case in self.labelled],
            "unlabelled": [case.name for case in self.unlabelled],
            "validation": [case.name for case in self.validation],
            "subjects": sorted(_subjects(all_cases) | self.earlier_subjects),
            "labelled_subjects": {
                "total": self.labelled_subjects,
                "learning": len(_subjects(self.labelled)),
                "validation": len(_subjects(self.validation)),
                "extra_validation": self.extra_validation,
            },
        }
        if self.test_subjects is not None:
            record["test_subjects"] = sorted(self.test_subjects)
        return record


class EarlierRun(NamedTuple):
    """What the run has seen whose weights a training starts from."""

    subjects: frozenset[str] = frozenset()
    """All its subjects. None of them can test the new run."""
    labelled_cases: frozenset[str] = frozenset()
    """The names of the cases that it learnt from. Their subjects are learnt from again."""


NO_EARLIER_RUN = EarlierRun()


@dataclass(frozen=True)
class _Roles:
    """Which subjects are for what, before the label budget is applied."""

    available: list[str]
    """Labelled subjects, in the order in which their labels are used."""
    test: set[str]
    validation: list[str] = field(default_factory=list)
    """Those that a split file fixes."""
    unlabelled: set[str] | None = None
    """The only subjects whose scans serve without a label; None for all that are left."""


def default_validation(labelled: int) -> int:
    """The number of the N labelled subjects that choose the weights: a tenth, none below N = 10.

    With few labels a subject is worth more for learning. Without validation the weights of the last
    step are used: by then the learning rate has decayed to 0, and weights that are averaged over
    time have settled.
    """
    return labelled // 10


def training_cases(
    dataset: Dataset,
    labelled: int | None,
    seed: int,
    validation: int | None = None,
    test: int | None = None,
    unlabelled: int | None = None,
    grade: str | None = None,
    fixed: FixedSplit | None = None,
    earlier: EarlierRun = NO_EARLIER_RUN,
) -> TrainingCases:
    """The cases of a training that sees the labels of `labelled` subjects (None: of all).

    With `validation=None`, the subjects that choose the weights are among the labelled ones, see
    `default_validation`. A number asks for that many additional labelled subjects; it does not
    change who is labelled. Budgets are nested: subjects labelled at a budget of 4 are so at 8.
    `test` is the number of subjects to hold out if no test folder has labels, a quarter by default.
    `unlabelled` is the number of unlabelled subjects, all by default; fewer if there are fewer.
    With a `grade`, cases of another grade are not used. A `fixed` split names the subjects.
    """
    dataset = of_grade(dataset, grade)
    roles = _roles(dataset, seed, test, fixed, earlier)
    available = roles.available
    budget = _budget(dataset, len(available), labelled, validation or 0)
    chosen = available[:budget]
    if roles.validation:
        learning = chosen
        validating = roles.validation
    elif validation is None:
        learning_count = budget - default_validation(budget)
        learning = chosen[:learning_count]
        validating = chosen[learning_count:]
    else:
        learning = chosen
        validating = available[budget : budget + validation]
    excluded = roles.test | set(validating)
    unlabelled_cases = _unlabelled_cases(dataset, learning, excluded)
    if roles.unlabelled is not None:
        unlabelled_cases = _of_subjects(unlabelled_cases, roles.unlabelled | set(available))
    if unlabelled is not None:
        candidates = _unlabelled_candidates(dataset, available, learning, seed)
        unlabelled_cases = _of_first_subjects(unlabelled_cases, candidates, unlabelled)
    is_determined = fixed is None and earlier == NO_EARLIER_RUN
    return TrainingCases(
        labelled=_labelled_cases(dataset, learning),
        unlabelled=unlabelled_cases,
        validation=_labelled_cases(dataset, validating),
        extra_validation=bool(validation or roles.validation),
        earlier_subjects=earlier.subjects,
        test_subjects=None if is_determined else frozenset(roles.test),
    )


def cases_for_test(
    dataset: Dataset,
    seed: int,
    test: int | None = None,
    grade: str | None = None,
    fixed: FixedSplit | None = None,
    earlier: EarlierRun = NO_EARLIER_RUN,
) -> Cases:
    """The labelled cases of the test folder; if it has none, those of `test` held-out subjects.

    With a `grade`, cases of another grade are not used. A `fixed` split names the subjects.
    """
    dataset = of_grade(dataset, grade)
    roles = _roles(dataset, seed, test, fixed, earlier)
    return labelled_cases_of(dataset, roles.test)


def labelled_cases_of(dataset: Dataset, subjects: Collection[str]) -> Cases:
    """The labelled cases of these subjects, from the test and the training folder."""
    labelled = _with_label(dataset.test + dataset.training)
    return tuple(case for case in labelled if case.subject in subjects)


def of_grade(dataset: Dataset, grade: str | None) -> Dataset:
    """The dataset without cases of another grade. Cases of unknown grade stay; None keeps all."""
    if grade is None:
        return dataset
    wanted = (grade, None)
    training = tuple(case for case in dataset.training if case.grade in wanted)
    test = tuple(case for case in dataset.test if case.grade in wanted)
    return replace(dataset, training=training, test=test)


def _budget(dataset: Dataset, available: int, labelled: int | None, extra_validation: int) -> int:
    """The number of labelled subjects out of `available`, which include the extra validation ones.

    All that remain after validation if `labelled` is None; an error if there are not enough.
    """
    if available == 0:
        raise UserError(f"{dataset.folder} has no labelled training case: label at least one scan.")
    largest = available - extra_validation
    situation = f"{dataset.folder} has {available} labelled training subjects beside those for test"
    if largest < 1:
        raise UserError(
            f"{situation}, so {extra_validation} for validation leave none to learn from: "
            "ask for fewer, or label more scans."
        )
    if labelled is None:
        return largest
    if not 1 <= labelled <= largest:
        request = f"--labelled {labelled}"
        if extra_validation:
            request += f" with {extra_validation} additional ones for validation"
        raise UserError(
            f"{situation}, so {request} is not possible: use --labelled 1 to {largest}."
        )
    return labelled


def _labelled_cases(dataset: Dataset, subjects: list[str]) -> Cases:
    labelled = _with_label(dataset.training)
    return tuple(case for case in labelled if case.subject in subjects)


def _unlabelled_cases(dataset: Dataset, learning: list[str], excluded: set[str]) -> Cases:
    """All other training scans, also a follow-up scan without a label of a labelled subject."""
    unlabelled = []
    for case in dataset.training:
        is_labelled = case.label is not None and case.subject in learning
        if not is_labelled and case.subject not in excluded:
            unlabelled.append(case.unlabelled())
    return tuple(unlabelled)


def _unlabelled_candidates(
    dataset: Dataset,
    available: list[str],
    learning: list[str],
    seed: int,
) -> list[str]:
    """Subjects in the order in which they are chosen if not all unlabelled ones are used.

    First those without any label, in an order that the seed draws. Then those that lose their
    labels, the last of the drawn order first, so that all label budgets use the same ones as far as
    possible. Unlabelled scans of a labelled subject are not used.
    """
    without_label = sorted(_subjects(dataset.training) - _subjects(_with_label(dataset.training)))
    order = generator(seed, Stream.UNLABELLED_SUBJECTS).permutation(len(without_label))
    candidates = [without_label[index] for index in order]
    for subject in reversed(available):
        if subject not in learning:
            candidates.append(subject)
    return candidates


def _of_first_subjects(cases: Cases, subjects: list[str], count: int) -> Cases:
    """The cases of the first `count` subjects that have any; of all if there are fewer."""
    with_case = _subjects(cases)
    chosen = [subject for subject in subjects if subject in with_case][:count]
    return tuple(case for case in cases if case.subject in chosen)


def _roles(
    dataset: Dataset,
    seed: int,
    test: int | None,
    fixed: FixedSplit | None,
    earlier: EarlierRun,
) -> _Roles:
    """Which subjects are for what, drawn from the seed or as a split file says."""
    subjects = _labelled_subjects(dataset, seed)
    if fixed is None:
        roles = _drawn_roles(dataset, subjects, test, earlier)
    else:
        roles = _fixed_roles(dataset, subjects, fixed, earlier)
    learnt = {case.subject for case in dataset.training if case.name in earlier.labelled_cases}
    learnt_first = sorted(roles.available, key=lambda subject: subject not in learnt)
    return replace(roles, available=learnt_first)


def _drawn_roles(
    dataset: Dataset,
    subjects: list[str],
    test: int | None,
    earlier: EarlierRun,
) -> _Roles:
    """The first of the subjects are held out for testing, unless an earlier run has seen them."""
    count = _held_out_count(dataset, test)
    unseen = [subject for subject in subjects if subject not in earlier.subjects]
    held_out = unseen[:count]
    available = [subject for subject in subjects if subject not in held_out]
    return _Roles(available, test=_subjects(dataset.test) | set(held_out))


def _fixed_roles(
    dataset: Dataset,
    subjects: list[str],
    fixed: FixedSplit,
    earlier: EarlierRun,
) -> _Roles:
    seen = sorted(set(fixed.test) & earlier.subjects)
    if seen:
        raise UserError(
            f"{fixed.file} has subject {seen[0]} in test, but the run to start from has seen it: "
            "move it to train, or train without --from."
        )
    return _Roles(
        available=[subject for subject in subjects if subject in fixed.train],
        test=set(fixed.test),
        validation=[subject for subject in subjects if subject in fixed.validation],
        unlabelled=None if fixed.unlabelled is None else set(fixed.unlabelled),
    )


def _held_out_count(dataset: Dataset, test: int | None) -> int:
    """The number of labelled training subjects to test on, 0 if the test folder has labels."""
    if _with_label(dataset.test):
        return 0
    labelled = len(_subjects(_with_label(dataset.training)))
    if test is None and labelled < 3:
        return 0
    if test is None:
        return max(1, labelled // 4)
    if test >= labelled:
        raise UserError(
            f"{dataset.folder} has {labelled} labelled subjects, so {test} for test leave none "
            "to learn from: ask for fewer, or label more scans."
        )
    return test


def _labelled_subjects(dataset: Dataset, seed: int) -> list[str]:
    """The subjects with a label in the training folder, in an order that the seed draws.

    An error if a subject is in training and in test.
    """
    shared = sorted(_subjects(dataset.training) & _subjects(dataset.test))
    if shared:
        raise UserError(
            f"{dataset.folder} has subject {shared[0]} in training and in test: "
            "remove it from one of them."
        )
    subjects = sorted(_subjects(_with_label(dataset.training)))
    order = generator(seed, Stream.SPLIT).permutation(len(subjects))
    return [subjects[index] for index in order]


def _of_subjects(cases: Cases, subjects: set[str]) -> Cases:
    return tuple(case for case in cases if case.subject in subjects)


def _subjects(cases: Cases) -> set[str]:
    return {case.subject for case in cases}


def _with_label(cases: Cases) -> Cases:
    return tuple(case for case in cases if case.label)
