"""Best and worst of a report, by hand: the sentence, the table and the pictures name the same subject."""

import pandas as pd
import pytest
import yaml

from segpl.reporting.material import gather
from segpl.reporting.page.standing import find_standing, standing_words
from segpl.reporting.page.wording import headline_table
from segpl.reporting.words import listed, plural


def write_run(folder, method, seed, values, metric="iou"):
    """A run with one score in each of two regions for each case; `values` maps subject and case to the two."""
    folder.mkdir(parents=True)
    (folder / "run.yaml").write_text(
        yaml.safe_dump({"method": {"name": method}, "seed": seed, "labelled": 2})
    )
    origin = {
        "run": folder.name,
        "method": method,
        "seed": seed,
        "labelled": 2,
        "shift": "clean",
        "level": 0.0,
    }
    rows = []
    for (subject, case), scores in values.items():
        for region, value in zip("xy", scores, strict=True):
            where = {"subject": subject, "case": case, "region": region}
            rows.append(origin | where | {"metric": metric, "value": value})
    pd.DataFrame(rows).to_csv(folder / "scores.csv", index=False)


@pytest.fixture
def runs(tmp_path):
    """The better method has a mean of 65 %, and its lowest subject, anna with 45 %, in seed 1.

    Over all runs bert is the lowest, since the other method fails him.
    """
    good = {("anna", "a1"): (0.8, 0.6), ("anna", "a2"): (0.7, 0.7), ("bert", "b"): (0.6, 0.6)}
    again = {("anna", "a1"): (0.5, 0.5), ("anna", "a2"): (0.4, 0.4), ("bert", "b"): (0.9, 0.8)}
    poor = {("anna", "a1"): (0.6, 0.6), ("anna", "a2"): (0.6, 0.6), ("bert", "b"): (0.1, 0.1)}
    write_run(tmp_path / "good-0", "good", 0, good)
    write_run(tmp_path / "good-1", "good", 1, again)
    write_run(tmp_path / "poor-0", "poor", 0, poor)
    return tmp_path


def test_the_worst_subject_is_the_same_everywhere(runs):
    material = gather([runs])
    standing = find_standing(material)
    # Subjects of good: 70 and 60, then 45 and 85. Mean 65.
    assert standing_words(standing.best, names_budgets=False) == [
        "good finds most: an IoU of 65.0 % on average over 2 test subjects; its worst is anna with 45.0 %."
    ]
    assert standing.cases == ["a2", "a1", "b"], (
        "anna's cases first, and the worse of them before the other"
    )
    (table,) = headline_table(material, standing.worst_iou)
    titles = [column.title for column in table.columns]
    worst = {row[1]: row[titles.index("worst subject IoU %")] for row in table.rows()}
    assert worst == {"good": pytest.approx(45), "poor": pytest.approx(10)}


def test_means_that_look_the_same_are_a_tie(tmp_path):
    write_run(tmp_path / "a", "a", 0, {("s", "s"): (0.6534, 0.6534), ("t", "t"): (0.6534, 0.6534)})
    write_run(tmp_path / "b", "b", 0, {("s", "s"): (0.7, 0.7), ("t", "t"): (0.6052, 0.6052)})
    write_run(tmp_path / "c", "c", 0, {("s", "s"): (0.1, 0.1), ("t", "t"): (0.1, 0.1)})
    standing = find_standing(gather([tmp_path]))
    assert standing_words(standing.best, names_budgets=False) == [
        "a and b are tied: an IoU of 65.3 % each on average over 2 test subjects; their worst is t with 60.5 %."
    ]
    assert standing.cases == ["t", "s"]


def test_a_single_run_finds_no_more_than_others(tmp_path):
    write_run(tmp_path / "a", "a", 0, {("s", "s"): (0.5, 0.5)})
    best = find_standing(gather([tmp_path])).best
    assert standing_words(best, names_budgets=True) == [
        "a (2 labelled) has an IoU of 50.0 % on average over 1 test subject; its worst is s with 50.0 %."
    ]


def test_equally_bad_subjects_stand_in_the_order_of_their_names(tmp_path):
    write_run(
        tmp_path / "a",
        "a",
        0,
        {("t", "t"): (0.0, 0.0), ("s", "s"): (0.0, 0.0), ("r", "r"): (0.5, 0.5)},
    )
    standing = find_standing(gather([tmp_path]))
    assert standing.best.worst_subject == "s"
    assert standing.cases == ["s", "t", "r"]


def test_a_case_without_a_defined_iou_comes_last(tmp_path):
    nan = float("nan")
    write_run(tmp_path / "a", "a", 0, {("s", "s"): (nan, nan), ("t", "t"): (0.5, nan)})
    assert find_standing(gather([tmp_path])).cases == ["t", "s"]


def test_without_a_defined_iou_nothing_is_best(tmp_path):
    write_run(tmp_path / "a", "a", 0, {("s", "s"): (float("nan"), float("nan"))})
    standing = find_standing(gather([tmp_path]))
    assert standing.best is None
    assert standing.cases == ["s"]
    assert standing_words(None, names_budgets=False)[0].startswith(
        "No test subject has a defined IoU"
    )


def test_words():
    assert [plural(count, "run") for count in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
    assert [listed(list(names)) for names in ("", "a", "ab", "abc")] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
