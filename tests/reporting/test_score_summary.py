"""The summary of scores that a command prints."""

import pandas as pd
import pytest

from segpl.reporting.score_summary import print_summary, read_scores, summary


def scores(values):
    """Scores of one run from tuples of subject, case, region and value; IoU and Dice are equal."""
    rows = []
    for subject, case, region, value in values:
        for metric in ("iou", "dice"):
            row = {
                "run": "r",
                "method": "m",
                "seed": 0,
                "labelled": 1,
                "shift": "clean",
                "level": 0.0,
                "subject": subject,
                "case": case,
                "region": region,
                "metric": metric,
                "value": value,
            }
            rows.append(row)
    return pd.DataFrame(rows)


def iou_row(table, region):
    """The row of the summary that shows the IoU of a region."""
    (row,) = table[(table["metric"] == "iou") & (table["region"] == region)].to_dict("records")
    return row


def test_cases_of_a_subject_are_averaged_before_subjects():
    table = summary(scores([("a", "a1", "x", 0.0), ("a", "a2", "x", 1.0), ("b", "b1", "x", 0.9)]))
    row = iou_row(table, "x")
    assert row["mean"] == pytest.approx((0.5 + 0.9) / 2)
    assert row["count"] == 2


def test_undefined_scores_are_left_out_and_not_counted():
    table = summary(scores([("a", "a", "x", float("nan")), ("b", "b", "x", 0.4)]))
    row = iou_row(table, "x")
    assert row["mean"] == pytest.approx(0.4)
    assert row["count"] == 1


def test_the_mean_over_regions_is_per_subject():
    first = [("a", "a", "x", 0.2), ("a", "a", "y", 0.4)]
    second = [("b", "b", "x", 0.6), ("b", "b", "y", 0.8)]
    row = iou_row(summary(scores(first + second)), "mean")
    assert row["mean"] == pytest.approx(0.5)
    assert row["std"] == pytest.approx(pd.Series([0.3, 0.7]).std())


def test_the_printed_table_shows_mean_and_standard_deviation(capsys):
    print_summary(scores([("a", "a", "x", 0.25), ("b", "b", "x", 0.75)]))
    assert "50.0 ± 35.4" in capsys.readouterr().out


def test_undefined_scores_are_reported(capsys):
    print_summary(scores([("a", "a", "x", float("nan")), ("b", "b", "x", 0.4)]))
    sentence = "1 of 2 IoU values is undefined (truth and mask are both empty) and is left out."
    assert sentence in capsys.readouterr().out


def test_one_test_subject_is_not_called_subjects(tmp_path, capsys):
    file = tmp_path / "scores.csv"
    scores([("a", "a", "x", 0.25)]).to_csv(file, index=False)
    print_summary(read_scores([file]))
    assert "over 1 test subject\n" in capsys.readouterr().out
