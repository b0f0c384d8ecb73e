from pathlib import Path

import pytest

from segpl.data.cases import Case, Dataset, Region, Task
from segpl.data.splits import cases_for_test, training_cases
from segpl.errors import UserError


def dataset(labelled=8, unlabelled=4, test=3):
    def cases(prefix, count, label):
        return tuple(Case(f"{prefix}{i}", f"{prefix}{i}", (Path("x"),), label) for i in range(count))

    training = cases("l", labelled, Path("y")) + cases("u", unlabelled, None)
    task = Task(("ct",), (Region("a", (1,), 1),))
    return Dataset(Path("here"), task, training, cases("t", test, Path("y")))


def names(cases):
    return {case.name for case in cases}


@pytest.mark.parametrize("data", [dataset(), dataset(test=0)], ids=["test folder", "no test folder"])
def test_nobody_is_in_two_parts(data):
    parts = training_cases(data, labelled=2, seed=3)
    groups = [
        names(part) for part in (parts.labelled, parts.unlabelled, parts.validation, cases_for_test(data, seed=3))
    ]
    assert all(groups)
    assert sum(map(len, groups)) == len(set.union(*groups)) == len(data.training) + len(data.test)


def test_budgets_are_nested_and_the_rest_is_unlabelled():
    small, large = (training_cases(dataset(), labelled, seed=0) for labelled in (2, 5))
    assert names(small.labelled) < names(large.labelled)
    assert small.validation == large.validation
    assert names(large.unlabelled) == names(small.unlabelled) - names(large.labelled)


def test_an_unlabelled_case_has_lost_its_label():
    assert all(case.label is None for case in training_cases(dataset(), labelled=1, seed=0).unlabelled)


def test_scans_without_label_of_a_labelled_subject_are_unlabelled_scans():
    """A follow-up that nobody drew is worth as much as that of another subject; of validation and test it is not."""
    task = Task(("ct",), (Region("a", (1,), 1),))
    visits = [("first", Path("y")), ("second", None)]
    cases = tuple(Case(f"{s}-{visit}", f"{s}", (Path("x"),), label) for s in range(8) for visit, label in visits)
    data = Dataset(Path("here"), task, cases, ())
    parts = training_cases(data, None, seed=0)
    labelled = {case.subject for case in parts.labelled}
    assert {case.subject for case in parts.unlabelled} == labelled
    assert all(case.name.endswith("second") for case in parts.unlabelled)
    fewer = training_cases(data, 1, seed=0)
    assert len(fewer.unlabelled) == 2 * len(labelled) - 1


def test_seeds_draw_other_subjects():
    assert len({frozenset(names(training_cases(dataset(), 2, seed).labelled)) for seed in range(10)}) > 3


def test_one_labelled_subject_trains_without_validation():
    parts = training_cases(dataset(labelled=1), None, seed=0)
    assert names(parts.labelled) == {"l0"}
    assert not parts.validation


def test_more_labels_than_there_are():
    with pytest.raises(UserError, match=r"here has 6 labelled .* --labelled 7 .* 1 to 6"):
        training_cases(dataset(), labelled=7, seed=0)


def test_a_subject_in_training_and_test_is_an_error():
    data = dataset()
    twice = Dataset(data.folder, data.task, data.training, (*data.test, data.training[0]))
    with pytest.raises(UserError, match="l0 in training and in test"):
        training_cases(twice, 1, seed=0)


def test_numbers_of_validation_and_test_subjects_can_be_given():
    data = dataset(labelled=9, unlabelled=0, test=0)
    parts = training_cases(data, labelled=1, seed=0, validation=1, test=5)
    assert [len(part) for part in (parts.labelled, parts.unlabelled, parts.validation)] == [1, 2, 1]
    assert len(cases_for_test(data, seed=0, test=5)) == 5
    assert not names(cases_for_test(data, seed=0, test=5)) & names(parts.labelled + parts.unlabelled + parts.validation)


@pytest.mark.parametrize("counts", [{"validation": 6}, {"test": 9}])
def test_counts_that_leave_nobody_to_learn_from(counts):
    with pytest.raises(UserError, match="leave none to learn from"):
        training_cases(dataset(labelled=8, test=0), 1, seed=0, **counts)
