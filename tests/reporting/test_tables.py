import pandas as pd
import pytest

from segpl.reporting.tables import print_summary, summary


def scores(values):
    keys = {"run": "r", "method": "m", "seed": 0, "labelled": 1, "shift": "clean", "level": 0.0}
    rows = [
        keys
        | {"subject": subject, "case": case, "region": region, "metric": metric, "value": value}
        for subject, case, region, value in values
        for metric in ("iou", "dice")
    ]
    return pd.DataFrame(rows)


def test_cases_of_a_subject_are_averaged_before_subjects():
    table = summary(scores([("a", "a1", "x", 0.0), ("a", "a2", "x", 1.0), ("b", "b1", "x", 0.9)]))
    row = table[(table["metric"] == "iou") & (table["region"] == "x")].iloc[0]
    assert row["mean"] == pytest.approx((0.5 + 0.9) / 2)
    assert row["count"] == 2


def test_undefined_scores_are_left_out_and_the_count_says_so():
    table = summary(scores([("a", "a", "x", float("nan")), ("b", "b", "x", 0.4)]))
    row = table[(table["metric"] == "iou") & (table["region"] == "x")].iloc[0]
    assert (row["mean"], row["count"]) == (pytest.approx(0.4), 1)


def test_the_mean_over_regions_is_per_subject():
    table = summary(
        scores(
            [("a", "a", "x", 0.2), ("a", "a", "y", 0.4), ("b", "b", "x", 0.6), ("b", "b", "y", 0.8)]
        )
    )
    row = table[(table["metric"] == "iou") & (table["region"] == "mean")].iloc[0]
    assert row["mean"] == pytest.approx(0.5)
    assert row["std"] == pytest.approx(pd.Series([0.3, 0.7]).std())


def test_the_printed_table_shows_the_numbers(capsys):
    print_summary(scores([("a", "a", "x", 0.25), ("b", "b", "x", 0.75)]))
    assert "50.0 ± 35.4" in capsys.readouterr().out
