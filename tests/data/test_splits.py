from pathlib import Path

import pytest

from segpl.data.cases import Case, Dataset, Region, Task
from segpl.data.splits import cases_for_test, default_validation, training_cases
from segpl.foundation.errors import UserError


def dataset(labelled=8, unlabelled=4, test=3):
    def cases(prefix, count, label):
        return tuple(
            Case(f"{prefix}{i}", f"{prefix}{i}", (Path("x"),), label) for i in range(count)
        )

    training = cases("l", labelled, Path("y")) + cases("u", unlabelled, None)
    task = Task(("ct",), (Region("a", (1,), 1),))
    return Dataset(Path("here"), task, training, cases("t", test, Path("y")))


def names(cases):
    return {case.name for case in cases}


@pytest.mark.parametrize(
    "data", [dataset(), dataset(test=0)], ids=["test folder", "no test folder"]
)
def test_nobody_is_in_two_parts(data):
    parts = training_cases(data, labelled=2, seed=3, validation=2)
    groups = [parts.labelled, parts.unlabelled, parts.validation, cases_for_test(data, seed=3)]
    assert all(groups)
    together = set.union(*map(names, groups))
    assert sum(map(len, groups)) == len(together) == len(data.training) + len(data.test)


@pytest.mark.parametrize("labelled", [1, 3, 9, 10, 25, 79])
def test_n_labelled_subjects_are_all_that_training_sees_a_label_of(labelled):
    data = dataset(labelled=79, unlabelled=0)
    parts = training_cases(data, labelled, seed=0)
    assert parts.labelled_subjects == labelled
    assert len(parts.labelled) + len(parts.validation) == labelled
    assert len(parts.unlabelled) == 79 - labelled
    assert all(case.label is None for case in parts.unlabelled)


@pytest.mark.parametrize(
    ("labelled", "validating"), [(1, 0), (9, 0), (10, 1), (19, 1), (20, 2), (25, 2)]
)
def test_by_default_a_tenth_of_the_labelled_subjects_validates(labelled, validating):
    assert default_validation(labelled) == validating
    parts = training_cases(dataset(labelled=40), labelled, seed=0)
    assert len(parts.validation) == validating
    assert len(parts.labelled) == labelled - validating
    assert not parts.extra_validation


def test_without_a_number_all_labelled_subjects_are_used():
    parts = training_cases(dataset(labelled=30), None, seed=0)
    assert (len(parts.labelled), len(parts.validation), len(parts.unlabelled)) == (27, 3, 4)
    parts = training_cases(dataset(labelled=30), None, seed=0, validation=5)
    assert (len(parts.labelled), len(parts.validation), len(parts.unlabelled)) == (25, 5, 4)


@pytest.mark.parametrize("validation", [0, 1, 5])
def test_asking_for_validation_does_not_change_who_is_labelled(validation):
    data = dataset(labelled=79, unlabelled=0)
    plain = training_cases(data, 3, seed=0)
    parts = training_cases(data, 3, seed=0, validation=validation)
    assert parts.labelled == plain.labelled
    assert len(parts.validation) == validation
    assert len(parts.unlabelled) == 79 - 3 - validation
    assert parts.labelled_subjects == 3 + validation
    assert parts.extra_validation == (validation > 0)


def test_no_validation_at_all_can_be_asked_for():
    parts = training_cases(dataset(labelled=30), 20, seed=0, validation=0)
    assert (len(parts.labelled), len(parts.validation)) == (20, 0)


@pytest.mark.parametrize("budgets", [(2, 5), (9, 10), (19, 20)])
@pytest.mark.parametrize("validation", [None, 3])
def test_budgets_are_nested(budgets, validation):
    data = dataset(labelled=30, test=0)
    small, large = (training_cases(data, labelled, 0, validation) for labelled in budgets)
    assert names(small.labelled) <= names(large.labelled)
    if validation is None:
        assert names(small.labelled + small.validation) < names(large.labelled + large.validation)
        assert names(large.unlabelled) < names(small.unlabelled)


def test_the_record_tells_what_labelled_subjects_are_used_for():
    record = training_cases(dataset(labelled=20), 12, seed=0).record()
    use = {"total": 12, "learning": 11, "validation": 1, "extra_validation": False}
    assert record["labelled_subjects"] == use
    record = training_cases(dataset(labelled=20), 3, seed=0, validation=5).record()
    use = {"total": 8, "learning": 3, "validation": 5, "extra_validation": True}
    assert record["labelled_subjects"] == use
    assert len(record["subjects"]) == 20 + 4


def test_scans_without_label_of_a_labelled_subject_are_unlabelled_scans():
    """A follow-up without a label is an unlabelled scan, but not where its subject validates or tests."""
    task = Task(("ct",), (Region("a", (1,), 1),))
    visits = [("first", Path("y")), ("second", None)]
    cases = tuple(
        Case(f"{s}-{visit}", f"{s}", (Path("x"),), label)
        for s in range(8)
        for visit, label in visits
    )
    data = Dataset(Path("here"), task, cases, ())
    parts = training_cases(data, None, seed=0, validation=1)
    labelled = {case.subject for case in parts.labelled}
    assert len(labelled) == 5
    assert {case.subject for case in parts.unlabelled} == labelled
    assert all(case.name.endswith("second") for case in parts.unlabelled)
    fewer = training_cases(data, 1, seed=0, validation=1)
    assert len(fewer.unlabelled) == 2 * len(labelled) - 1


def test_seeds_draw_other_subjects():
    assert (
        len({frozenset(names(training_cases(dataset(), 2, seed).labelled)) for seed in range(10)})
        > 3
    )


def test_one_labelled_subject_trains_without_validation():
    parts = training_cases(dataset(labelled=1), None, seed=0)
    assert names(parts.labelled) == {"l0"}
    assert not parts.validation


def test_more_labels_than_there_are():
    with pytest.raises(
        UserError, match=r"here has 8 labelled .* --labelled 9 cannot be had: .* 1 to 8"
    ):
        training_cases(dataset(), labelled=9, seed=0)
    with pytest.raises(UserError, match=r"here has 8 .* --labelled 7 and 2 further .* 1 to 6"):
        training_cases(dataset(), labelled=7, seed=0, validation=2)


def test_a_subject_in_training_and_test_is_an_error():
    data = dataset()
    twice = Dataset(data.folder, data.task, data.training, (*data.test, data.training[0]))
    with pytest.raises(UserError, match="l0 in training and in test"):
        training_cases(twice, 1, seed=0)


def test_numbers_of_validation_and_test_subjects_can_be_given():
    data = dataset(labelled=9, unlabelled=0, test=0)
    parts = training_cases(data, labelled=1, seed=0, validation=1, test=5)
    assert [len(part) for part in (parts.labelled, parts.unlabelled, parts.validation)] == [1, 2, 1]
    tested = names(cases_for_test(data, seed=0, test=5))
    assert len(tested) == 5
    assert not tested & names(parts.labelled + parts.unlabelled + parts.validation)


@pytest.mark.parametrize("counts", [{"validation": 6}, {"test": 8}])
def test_counts_that_leave_nobody_to_learn_from(counts):
    with pytest.raises(UserError, match=r"here has .* leave none to learn from: ask for fewer"):
        training_cases(dataset(labelled=8, test=0), None, seed=0, **counts)
