"""Split files: fixed parts and folds by subject."""

import json

import pytest
from test_splits import dataset, names

from segpl.data.split_files import read_split_file
from segpl.data.splits import cases_for_test, training_cases
from segpl.foundation.errors import UserError


@pytest.fixture
def split_file(tmp_path):
    """Writes a split file and returns its path."""

    def write(text):
        file = tmp_path / "split.yaml"
        file.write_text(text)
        return file

    return write


PARTS = "train: [l0, l1, l2]\nvalidation: [l3]\ntest: [l4, l5]\n"


def test_the_parts_of_the_file_are_used(split_file):
    data = dataset(test=0)
    fixed = read_split_file(split_file(PARTS), None, data)
    split = training_cases(data, None, seed=5, fixed=fixed)
    assert names(split.labelled) == {"l0", "l1", "l2"}
    assert names(split.validation) == {"l3"}
    assert names(cases_for_test(data, seed=5, fixed=fixed)) == {"l4", "l5"}
    assert split.record()["test_subjects"] == ["l4", "l5"]


def test_subjects_that_the_file_does_not_name_serve_without_their_label(split_file):
    data = dataset(test=0)
    fixed = read_split_file(split_file(PARTS), None, data)
    split = training_cases(data, None, seed=5, fixed=fixed)
    assert names(split.unlabelled) == {"l6", "l7", "u0", "u1", "u2", "u3"}
    assert all(case.label is None for case in split.unlabelled)


def test_unlabelled_subjects_can_be_named(split_file):
    data = dataset(test=0)
    fixed = read_split_file(split_file(PARTS + "unlabelled: [u1]\n"), None, data)
    split = training_cases(data, 2, seed=5, fixed=fixed)
    beyond_the_budget = {"l0", "l1", "l2"} - names(split.labelled)
    assert names(split.unlabelled) == {"u1"} | beyond_the_budget


def test_the_label_budget_draws_from_train(split_file):
    data = dataset(test=0)
    fixed = read_split_file(split_file(PARTS), None, data)
    split = training_cases(data, 2, seed=5, fixed=fixed)
    assert len(split.labelled) == 2
    assert names(split.labelled) < {"l0", "l1", "l2"}


def test_each_fold_is_tested_on_once(split_file):
    data = dataset(labelled=6, test=0)
    file = split_file("folds:\n  - [l0, l1]\n  - [l2, l3]\n  - [l4, l5]\n")
    tested = []
    for fold in range(3):
        fixed = read_split_file(file, fold, data)
        test = names(cases_for_test(data, seed=0, fixed=fixed))
        split = training_cases(data, None, seed=0, fixed=fixed)
        assert names(split.labelled) == {"l0", "l1", "l2", "l3", "l4", "l5"} - test
        tested += sorted(test)
    assert tested == ["l0", "l1", "l2", "l3", "l4", "l5"]


def test_a_json_file_is_read_too(tmp_path):
    file = tmp_path / "split.json"
    file.write_text(json.dumps({"train": ["l0"], "test": ["l1"]}))
    assert read_split_file(file, None, dataset()).test == ("l1",)


@pytest.mark.parametrize(
    ("text", "fold", "sentence"),
    [
        ("train: [l0, l1]\ntest: [l1]\n", None, "names subject l1 twice, in train and in test"),
        ("folds: [[l0, l1], [l1, l2]]\n", 0, "names subject l1 twice"),
        ("train: [l0]\ntest: [ll1]\n", None, "subject ll1, which .* Did you mean 'l1'"),
        ("train: [u0]\n", None, "subject u0 in train, but .* has no label"),
        ("train: [t0]\n", None, "it is in the test folder"),
        ("test: [l0]\n", None, "names no subject to learn from"),
        ("folds: [[l0], [l1]]\n", 2, "has 2 folds: choose .* fold=0 to 1"),
        ("folds: [[l0], [l1]]\n", None, "has 2 folds: choose"),
        ("train: [l0]\n", 1, "has no folds"),
        ("folds: [[l0], [l1]]\ntrain: [l2]\n", 0, "has folds and other parts"),
        ("train: l0\n", None, "train is 'l0'"),
        ("trains: [l0]\n", None, "unknown setting 'trains'.*Did you mean 'train'"),
        ("[l0]\n", None, "must name subjects under"),
    ],
)
def test_a_wrong_file_is_refused_with_a_sentence(split_file, text, fold, sentence):
    file = split_file(text)
    with pytest.raises(UserError, match=sentence) as error:
        read_split_file(file, fold, dataset())
    if fold != 1:
        assert str(file) in str(error.value)


def test_a_missing_file_is_refused_with_a_sentence(tmp_path):
    with pytest.raises(UserError, match="cannot be read: give a split file"):
        read_split_file(tmp_path / "none.yaml", None, dataset())
