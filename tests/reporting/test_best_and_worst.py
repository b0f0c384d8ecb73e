"""Best and worst of a report by hand: text, table and pictures name the same subject."""

import pandas as pd
import pytest
import yaml

from segpl.reporting.material import gather
from segpl.reporting.page.best_and_worst import describe_best, find_best_and_worst
from segpl.reporting.page.tables import main_table

NAN = float("nan")


def write_run(folder, method, seed, scores):
    """A run with an IoU in each of two regions; `scores` maps subject and case to the two."""
    folder.mkdir(parents=True)
    settings = {"method": {"name": method}, "seed": seed, "labelled": 2}
    (folder / "run.yaml").write_text(yaml.safe_dump(settings))
    rows = []
    for (subject, case), values in scores.items():
        for region, value in zip("xy", values, strict=True):
            row = {
                "run": folder.name,
                "method": method,
                "seed": seed,
                "labelled": 2,
                "subject": subject,
                "case": case,
                "region": region,
                "shift": "clean",
                "level": 0.0,
                "metric": "iou",
                "value": value,
            }
            rows.append(row)
    pd.DataFrame(rows).to_csv(folder / "scores.csv", index=False)


@pytest.fixture
def material(tmp_path):
    """The better method has a mean of 65 %; its lowest subject is anna with 45 %, in seed 1.

    Its subjects have 70 and 60 % in seed 0, and 45 and 85 % in seed 1. Over all runs bert is the
    lowest, because the other method fails on him.
    """
    good_seed_0 = {
        ("anna", "a1"): (0.8, 0.6),
        ("anna", "a2"): (0.7, 0.7),
        ("bert", "b"): (0.6, 0.6),
    }
    good_seed_1 = {
        ("anna", "a1"): (0.5, 0.5),
        ("anna", "a2"): (0.4, 0.4),
        ("bert", "b"): (0.9, 0.8),
    }
    poor = {
        ("anna", "a1"): (0.6, 0.6),
        ("anna", "a2"): (0.6, 0.6),
        ("bert", "b"): (0.1, 0.1),
    }
    write_run(tmp_path / "good-0", "good", 0, good_seed_0)
    write_run(tmp_path / "good-1", "good", 1, good_seed_1)
    write_run(tmp_path / "poor-0", "poor", 0, poor)
    return gather([tmp_path])


def test_the_text_names_the_best_method_and_its_worst_subject(material):
    best = find_best_and_worst(material).best
    assert describe_best(best, names_budgets=False) == [
        "good has the highest mean IoU: 65.0 % over 2 test subjects.",
        "Its worst test subject is anna with an IoU of 45.0 %.",
    ]


def test_the_cases_of_the_worst_subject_come_first_worst_case_first(material):
    assert find_best_and_worst(material).cases == ["a2", "a1", "b"]


def test_the_table_shows_the_worst_subject_of_each_method(material):
    (table,) = main_table(material, find_best_and_worst(material).worst_iou)
    titles = [column.title for column in table.columns]
    column = titles.index("worst subject IoU %")
    worst = {row[1]: row[column] for row in table.rows()}
    assert worst == {"good": pytest.approx(45), "poor": pytest.approx(10)}


def test_means_that_are_printed_alike_are_a_tie(tmp_path):
    write_run(tmp_path / "a", "a", 0, {("s", "s"): (0.6534, 0.6534), ("t", "t"): (0.6534, 0.6534)})
    write_run(tmp_path / "b", "b", 0, {("s", "s"): (0.7, 0.7), ("t", "t"): (0.6052, 0.6052)})
    write_run(tmp_path / "c", "c", 0, {("s", "s"): (0.1, 0.1), ("t", "t"): (0.1, 0.1)})
    result = find_best_and_worst(gather([tmp_path]))
    assert describe_best(result.best, names_budgets=False) == [
        "a and b are tied with a mean IoU of 65.3 % over 2 test subjects.",
        "Their worst test subject is t with an IoU of 60.5 %.",
    ]
    assert result.cases == ["t", "s"]


def test_a_single_method_is_not_called_the_highest(tmp_path):
    write_run(tmp_path / "a", "a", 0, {("s", "s"): (0.5, 0.5)})
    best = find_best_and_worst(gather([tmp_path])).best
    first, _ = describe_best(best, names_budgets=True)
    assert first == "a (2 labelled) has a mean IoU of 50.0 % over 1 test subject."


def test_equally_bad_subjects_are_ordered_by_name(tmp_path):
    scores = {("t", "t"): (0.0, 0.0), ("s", "s"): (0.0, 0.0), ("r", "r"): (0.5, 0.5)}
    write_run(tmp_path / "a", "a", 0, scores)
    result = find_best_and_worst(gather([tmp_path]))
    assert result.best.worst_subject == "s"
    assert result.cases == ["s", "t", "r"]


def test_a_case_without_a_defined_iou_comes_last(tmp_path):
    write_run(tmp_path / "a", "a", 0, {("s", "s"): (NAN, NAN), ("t", "t"): (0.5, NAN)})
    assert find_best_and_worst(gather([tmp_path])).cases == ["t", "s"]


def test_without_a_defined_iou_no_method_is_best(tmp_path):
    write_run(tmp_path / "a", "a", 0, {("s", "s"): (NAN, NAN)})
    result = find_best_and_worst(gather([tmp_path]))
    assert result.best is None
    assert result.cases == ["s"]
    (sentence,) = describe_best(None, names_budgets=False)
    assert sentence.startswith("No test subject has a defined IoU")
