"""Splits are by subject, nested by budget and drawn from the seed."""

from dataclasses import replace
from pathlib import Path

import pytest

from segpl.data.cases import Case, Dataset, Region, Task
from segpl.data.splits import EarlierRun, cases_for_test, default_validation, training_cases
from segpl.foundation.errors import UserError

TASK = Task(("ct",), (Region("a", (1,), 1),))
IMAGE = Path("x")
LABEL = Path("y")


def make_cases(prefix, count, label):
    names = [f"{prefix}{number}" for number in range(count)]
    return tuple(Case(name, name, (IMAGE,), label) for name in names)


def dataset(labelled=8, unlabelled=4, test=3):
    training = make_cases("l", labelled, LABEL) + make_cases("u", unlabelled, None)
    return Dataset(Path("here"), TASK, training, make_cases("t", test, LABEL))


def names(cases):
    return {case.name for case in cases}


def counts(split):
    return {
        "labelled": len(split.labelled),
        "validation": len(split.validation),
        "unlabelled": len(split.unlabelled),
    }


@pytest.mark.parametrize(
    "data", [dataset(), dataset(test=0)], ids=["test folder", "no test folder"]
)
def test_every_case_has_exactly_one_role(data):
    split = training_cases(data, labelled=2, seed=3, validation=2)
    roles = [split.labelled, split.unlabelled, split.validation, cases_for_test(data, seed=3)]
    assert all(roles)
    drawn = []
    for role in roles:
        drawn += [case.name for case in role]
    assert sorted(drawn) == sorted(names(data.training + data.test))


@pytest.mark.parametrize("labelled", [1, 3, 9, 10, 25, 79])
def test_training_sees_the_labels_of_n_subjects_only(labelled):
    data = dataset(labelled=79, unlabelled=0)
    split = training_cases(data, labelled, seed=0)
    assert split.labelled_subjects == labelled
    assert len(split.labelled) + len(split.validation) == labelled
    assert len(split.unlabelled) == 79 - labelled
    assert all(case.label is None for case in split.unlabelled)


@pytest.mark.parametrize(
    ("labelled", "validation"), [(1, 0), (9, 0), (10, 1), (19, 1), (20, 2), (25, 2)]
)
def test_by_default_a_tenth_of_the_labelled_subjects_validates(labelled, validation):
    assert default_validation(labelled) == validation
    split = training_cases(dataset(labelled=40), labelled, seed=0)
    assert len(split.validation) == validation
    assert len(split.labelled) == labelled - validation
    assert not split.extra_validation


def test_without_a_number_all_labelled_subjects_are_used():
    split = training_cases(dataset(labelled=30), None, seed=0)
    assert counts(split) == {"labelled": 27, "validation": 3, "unlabelled": 4}


def test_without_a_number_all_but_the_validation_subjects_are_labelled():
    split = training_cases(dataset(labelled=30), None, seed=0, validation=5)
    assert counts(split) == {"labelled": 25, "validation": 5, "unlabelled": 4}


@pytest.mark.parametrize("validation", [0, 1, 5])
def test_asking_for_validation_does_not_change_who_is_labelled(validation):
    data = dataset(labelled=79, unlabelled=0)
    default = training_cases(data, 3, seed=0)
    split = training_cases(data, 3, seed=0, validation=validation)
    assert split.labelled == default.labelled
    assert len(split.validation) == validation
    assert len(split.unlabelled) == 79 - 3 - validation
    assert split.labelled_subjects == 3 + validation
    assert split.extra_validation == (validation > 0)


def test_validation_can_be_switched_off():
    split = training_cases(dataset(labelled=30), 20, seed=0, validation=0)
    assert len(split.labelled) == 20
    assert len(split.validation) == 0


@pytest.mark.parametrize("budgets", [(2, 5), (9, 10), (19, 20)])
@pytest.mark.parametrize("validation", [None, 3])
def test_budgets_are_nested(budgets, validation):
    data = dataset(labelled=30, test=0)
    small_budget, large_budget = budgets
    small = training_cases(data, small_budget, 0, validation)
    large = training_cases(data, large_budget, 0, validation)
    assert names(small.labelled) <= names(large.labelled)


@pytest.mark.parametrize("budgets", [(2, 5), (9, 10), (19, 20)])
def test_a_larger_budget_only_moves_unlabelled_subjects(budgets):
    data = dataset(labelled=30, test=0)
    small_budget, large_budget = budgets
    small = training_cases(data, small_budget, seed=0)
    large = training_cases(data, large_budget, seed=0)
    assert names(small.labelled + small.validation) < names(large.labelled + large.validation)
    assert names(large.unlabelled) < names(small.unlabelled)


def test_the_record_counts_the_validation_subjects_among_the_labelled_ones():
    record = training_cases(dataset(labelled=20), 12, seed=0).record()
    use = {"total": 12, "learning": 11, "validation": 1, "extra_validation": False}
    assert record["labelled_subjects"] == use


def test_the_record_counts_additional_validation_subjects():
    record = training_cases(dataset(labelled=20), 3, seed=0, validation=5).record()
    use = {"total": 8, "learning": 3, "validation": 5, "extra_validation": True}
    assert record["labelled_subjects"] == use
    assert len(record["subjects"]) == 20 + 4


def dataset_with_follow_ups(subjects=8):
    """Every subject has a labelled first scan and an unlabelled second one."""
    cases = []
    for number in range(subjects):
        subject = str(number)
        cases.append(Case(f"{subject}-first", subject, (IMAGE,), LABEL))
        cases.append(Case(f"{subject}-second", subject, (IMAGE,)))
    return Dataset(Path("here"), TASK, tuple(cases), ())


def test_follow_ups_without_a_label_of_labelled_subjects_are_unlabelled_scans():
    """Those of validation and test subjects are not: training must not see these subjects."""
    split = training_cases(dataset_with_follow_ups(), None, seed=0, validation=1)
    labelled = {case.subject for case in split.labelled}
    assert len(labelled) == 5
    assert {case.subject for case in split.unlabelled} == labelled
    assert all(case.name.endswith("second") for case in split.unlabelled)


def test_all_scans_of_subjects_beyond_the_budget_are_unlabelled():
    split = training_cases(dataset_with_follow_ups(), 1, seed=0, validation=1)
    assert len(split.unlabelled) == 2 * 5 - 1


def test_seeds_draw_other_subjects():
    draws = {frozenset(names(training_cases(dataset(), 2, seed).labelled)) for seed in range(10)}
    assert len(draws) > 3


def test_one_labelled_subject_trains_without_validation():
    split = training_cases(dataset(labelled=1), None, seed=0)
    assert names(split.labelled) == {"l0"}
    assert not split.validation


def test_asking_for_too_many_labels_is_an_error():
    complaint = r"here has 8 labelled .* --labelled 9 is not possible: .* 1 to 8"
    with pytest.raises(UserError, match=complaint):
        training_cases(dataset(), labelled=9, seed=0)


def test_additional_validation_subjects_reduce_the_possible_budget():
    complaint = r"here has 8 .* --labelled 7 with 2 additional .* 1 to 6"
    with pytest.raises(UserError, match=complaint):
        training_cases(dataset(), labelled=7, seed=0, validation=2)


def test_a_subject_in_training_and_test_is_an_error():
    data = dataset()
    twice = Dataset(data.folder, data.task, data.training, (*data.test, data.training[0]))
    with pytest.raises(UserError, match="l0 in training and in test"):
        training_cases(twice, 1, seed=0)


def test_numbers_of_validation_and_test_subjects_can_be_given():
    data = dataset(labelled=9, unlabelled=0, test=0)
    split = training_cases(data, labelled=1, seed=0, validation=1, test=5)
    assert counts(split) == {"labelled": 1, "validation": 1, "unlabelled": 2}
    test = names(cases_for_test(data, seed=0, test=5))
    assert len(test) == 5
    assert not test & names(split.labelled + split.unlabelled + split.validation)


@pytest.mark.parametrize("subjects", [{"validation": 6}, {"test": 8}])
def test_a_subject_must_be_left_to_learn_from(subjects):
    with pytest.raises(UserError, match=r"here has .* leave none to learn from: ask for fewer"):
        training_cases(dataset(labelled=8, test=0), None, seed=0, **subjects)


def test_as_many_unlabelled_subjects_are_used_as_were_asked_for():
    data = dataset(labelled=12, unlabelled=0, test=0)
    split = training_cases(data, 1, seed=0, validation=1, test=5, unlabelled=2)
    assert counts(split) == {"labelled": 1, "validation": 1, "unlabelled": 2}
    others = names(split.labelled + split.validation + cases_for_test(data, seed=0, test=5))
    assert not names(split.unlabelled) & others


def test_unlabelled_subjects_stay_the_same_when_more_are_labelled():
    data = dataset(labelled=12, unlabelled=0, test=0)
    few = training_cases(data, 1, seed=0, validation=1, test=5, unlabelled=2)
    more = training_cases(data, 2, seed=0, validation=1, test=5, unlabelled=2)
    assert few.unlabelled == more.unlabelled
    other_seed = training_cases(data, 1, seed=1, validation=1, test=5, unlabelled=2)
    assert other_seed.unlabelled != few.unlabelled


def test_subjects_without_a_label_are_taken_first():
    split = training_cases(dataset(), 2, seed=0, unlabelled=3)
    assert split.unlabelled_subjects == 3
    assert names(split.unlabelled) < {"u0", "u1", "u2", "u3"}
    assert training_cases(dataset(), 2, seed=0, unlabelled=99).unlabelled_subjects == 10


def test_an_unlabelled_scan_of_a_labelled_subject_is_not_an_unlabelled_subject():
    split = training_cases(dataset_with_follow_ups(), 1, seed=0, validation=1, unlabelled=1)
    learnt_from = {case.subject for case in split.labelled}
    assert split.unlabelled_subjects == 1
    assert not learnt_from & {case.subject for case in split.unlabelled}


def test_cases_of_another_grade_are_not_used_and_those_of_unknown_grade_are():
    grades = ["HGG", "LGG", None]
    training = []
    for index, case in enumerate(make_cases("l", 12, LABEL)):
        training.append(replace(case, grade=grades[index % 3]))
    data = Dataset(Path("here"), TASK, tuple(training), ())
    split = training_cases(data, 1, seed=0, validation=1, test=3, grade="HGG")
    tested = cases_for_test(data, seed=0, test=3, grade="HGG")
    used = split.labelled + split.unlabelled + split.validation + tested
    assert names(used) == {case.name for case in training if case.grade != "LGG"}


EARLIER = EarlierRun(frozenset({"l0", "l1", "l2", "l3", "l4", "l5", "u0"}), frozenset({"l0", "l5"}))


@pytest.mark.parametrize("seed", range(10))
def test_no_subject_that_the_earlier_run_has_seen_is_tested_on(seed):
    """Labels were added since, so the seed would draw other subjects."""
    data = dataset(test=0)
    assert names(cases_for_test(data, seed, earlier=EARLIER)) == {"l6", "l7"}
    split = training_cases(data, None, seed, earlier=EARLIER)
    assert names(split.labelled) == {"l0", "l1", "l2", "l3", "l4", "l5"}
    assert split.record()["test_subjects"] == ["l6", "l7"]
    assert EARLIER.subjects <= set(split.record()["subjects"])


@pytest.mark.parametrize("seed", range(5))
def test_what_the_earlier_run_learnt_from_is_learnt_from_again(seed):
    split = training_cases(dataset(test=0), 2, seed, earlier=EARLIER)
    assert names(split.labelled) == {"l0", "l5"}


def test_without_an_earlier_run_the_record_is_as_it_was():
    assert "test_subjects" not in training_cases(dataset(), 2, seed=0).record()
