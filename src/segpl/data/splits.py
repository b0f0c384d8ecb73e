"""Who trains, who validates, who tests: by subject, drawn from the seed, nested over label budgets."""

from dataclasses import dataclass

from segpl.data.cases import Case, Dataset
from segpl.draws import Stream, generator
from segpl.errors import UserError


@dataclass(frozen=True)
class TrainingCases:
    """All that training is handed. The test cases are not in here, nor is a label of an unlabelled case."""

    labelled: tuple[Case, ...]
    unlabelled: tuple[Case, ...]
    validation: tuple[Case, ...]


def training_cases(
    dataset: Dataset, labelled: int | None, seed: int, validation: int | None = None, test: int | None = None
) -> TrainingCases:
    """`labelled` subjects with their labels (all by default); all other training scans serve as unlabelled.

    The subjects labelled at a budget of 4 are among those at 8, because both are the head of one order. `validation`
    and `test` are numbers of subjects, a quarter each by default; `test` counts where there is no test folder.
    """
    subjects = _labelled_subjects(dataset, seed)[_held_out(dataset, test) :]
    if not subjects:
        raise UserError(f"{dataset.folder} has no labelled training case: label at least one scan.")
    quarter = max(1, len(subjects) // 4) if len(subjects) > 1 else 0
    validating = quarter if validation is None else validation
    if validating >= len(subjects):
        raise UserError(
            f"{dataset.folder} has {len(subjects)} labelled subjects beside those for test, so {validating} for "
            f"validation leave none to learn from: ask for fewer."
        )
    pool = subjects[validating:]
    budget = len(pool) if labelled is None else labelled
    if not 1 <= budget <= len(pool):
        raise UserError(
            f"{dataset.folder} has {len(pool)} labelled training subjects beside those for validation and test, "
            f"so --labelled {budget} cannot be had: ask for 1 to {len(pool)}."
        )
    chosen, kept_out = set(pool[:budget]), {*subjects[:validating], *_test_subjects(dataset, seed, test)}
    learnt = tuple(case for case in dataset.training if case.subject in chosen and case.label)
    names = {case.name for case in learnt}
    others = [case for case in dataset.training if case.name not in names and case.subject not in kept_out]
    return TrainingCases(
        labelled=learnt,
        unlabelled=tuple(case.unlabelled() for case in others),
        validation=tuple(case for case in dataset.training if case.subject in subjects[:validating] and case.label),
    )


def cases_for_test(dataset: Dataset, seed: int, test: int | None = None) -> tuple[Case, ...]:
    """The labelled cases of the test folder or, where there are none, `test` of the labelled training subjects."""
    subjects = _test_subjects(dataset, seed, test)
    return tuple(case for case in dataset.test + dataset.training if case.label and case.subject in subjects)


def _test_subjects(dataset: Dataset, seed: int, test: int | None) -> set[str]:
    held_out = _labelled_subjects(dataset, seed)[: _held_out(dataset, test)]
    return {case.subject for case in dataset.test} | set(held_out)


def _held_out(dataset: Dataset, test: int | None) -> int:
    """How many labelled training subjects must serve as test subjects."""
    labelled = len({case.subject for case in dataset.training if case.label})
    if any(case.label for case in dataset.test):
        return 0
    if test is not None and test >= labelled:
        raise UserError(f"{dataset.folder} has {labelled} labelled subjects: {test} for test leave none to learn from.")
    return (max(1, labelled // 4) if labelled >= 3 else 0) if test is None else test


def _labelled_subjects(dataset: Dataset, seed: int) -> list[str]:
    """Subjects with a label in the training folder, in the order that the seed draws."""
    shared = sorted({case.subject for case in dataset.training} & {case.subject for case in dataset.test})
    if shared:
        raise UserError(f"{dataset.folder} has subject {shared[0]} in training and in test: remove it from one.")
    subjects = sorted({case.subject for case in dataset.training if case.label})
    return [subjects[i] for i in generator(seed, Stream.SPLIT).permutation(len(subjects))]
