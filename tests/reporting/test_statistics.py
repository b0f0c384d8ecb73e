"""Statistics of scores, compared with numbers worked out by hand and with scipy."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from segpl.reporting.statistics import (
    SMALLEST,
    bland_altman,
    bootstrap,
    by_size,
    holm,
    interval,
    mann_whitney,
    per_subject,
    wilcoxon,
)

pytestmark = pytest.mark.filterwarnings("error")
NAN = float("nan")


def table(columns, rows):
    """Rows of one clean run of segpl with seed 0, unless they say otherwise."""
    keys = {
        "run": "r",
        "method": "segpl",
        "seed": 0,
        "labelled": 2,
        "shift": "clean",
        "level": 0.0,
        "metric": "iou",
    }
    names = columns.split()
    records = []
    for row in rows:
        values = dict(zip(names, row, strict=True))
        records.append(keys | values)
    return pd.DataFrame(records)


def differences(values):
    """Differences of subjects (rows) by seeds (columns), as a series with both as index."""
    return pd.DataFrame(values).rename_axis("subject").rename_axis("seed", axis=1).stack()


def test_a_subject_counts_once_whatever_its_cases_and_regions():
    rows = [
        ("a", "a1", "core", 0.2),
        ("a", "a2", "core", 0.4),
        ("a", "a2", "whole", 0.9),
        ("b", "b1", "core", 0.5),
        ("b", "b1", "whole", NAN),
        ("c", "c1", "core", NAN),
    ]
    result = per_subject(table("subject case region value", rows)).set_index("subject")
    expected = {"a": (0.3 + 0.9) / 2, "b": 0.5, "c": NAN}
    assert result["value"].to_dict() == pytest.approx(expected, nan_ok=True)
    assert result["undefined"].to_dict() == {"a": 0, "b": 1, "c": 1}


def test_runs_shifts_and_budgets_are_kept_apart_also_where_all_labels_are_used():
    kept = [("r", 2, 0.0), ("r", 2, 1.0), ("s", NAN, 0.0)]
    rows = [(*keys, "a", "a", "x", 0.1) for keys in kept]
    result = per_subject(table("run labelled level subject case region value", rows))
    assert result["value"].tolist() == [0.1, 0.1, 0.1]
    assert result["labelled"].isna().sum() == 1


def test_other_metrics_do_not_mix_in():
    rows = [("iou", "a", "a", "x", 0.1), ("dice", "a", "a", "x", 0.2)]
    scores = table("metric subject case region value", rows)
    assert per_subject(scores)["value"].tolist() == [0.1]
    assert per_subject(scores, "dice")["value"].tolist() == [0.2]


def test_sizes_are_shares_of_the_image_and_a_limit_belongs_to_the_larger_size():
    shares = [0, 0.00001, 0.000999, 0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.9]
    names = ["below 0.1", "0.1-0.2", "0.2-0.5", "0.5-1", "1-2", "2-4", "4-8", "above 8"]
    rows = [("a", "a", number, "x", share, 0.5) for number, share in enumerate(shares)]
    result = by_size(table("subject case image region foreground value", rows))
    assert result["size"].tolist() == names
    assert result["images"].tolist() == [2, 1, 1, 1, 1, 1, 1, 2]


def test_images_of_a_size_are_averaged_over_seeds_first_and_counted_with_their_subjects():
    rows = [
        (0, "a", 0, 0.03, 0.2),
        (1, "a", 0, 0.03, 0.4),
        (0, "a", 1, 0.03, 0.5),
        (0, "b", 0, 0.03, 0.7),
        (0, "b", 1, 0.03, NAN),
        (0, "b", 2, 0.2, 0.9),
    ]
    images = table("seed subject image foreground value", rows).assign(case="c", region="x")
    result = by_size(images).set_index("size")
    assert result.loc["2-4", "mean"] == pytest.approx(0.5)
    assert result.loc["2-4", "spread"] == pytest.approx(0.2)
    assert result.loc["2-4", ["images", "subjects"]].tolist() == [3, 2]
    assert np.isnan(result.loc["above 8", "spread"])


def test_bland_altman_by_hand():
    result = bland_altman(pd.Series([3.0, 1.0, 5.0, 4.0]), pd.Series([2.0, 2.0, 3.0, 4.0]))
    # The differences 1, -1, 2, 0 deviate by 0.5, 1.5, 1.5 and 0.5 from their mean of 0.5.
    deviation = (5 / 3) ** 0.5
    half_width = 3.182446 * deviation / 2
    assert result.means.tolist() == [2.5, 1.5, 4, 4]
    assert result.differences.tolist() == [1, -1, 2, 0]
    assert result.bias == 0.5
    assert result.limits == pytest.approx((0.5 - 1.96 * deviation, 0.5 + 1.96 * deviation))
    assert result.bias_interval == pytest.approx((0.5 - half_width, 0.5 + half_width))


def test_bland_altman_pairs_by_index_and_counts_what_has_no_pair():
    first = pd.Series({"a": 1.0, "b": 2.0, "c": NAN, "d": 1.0})
    second = pd.Series({"b": 1.0, "a": 1.0, "c": 1.0})
    result = bland_altman(first, second)
    assert sorted(result.differences) == [0, 1]
    assert result.left_out == 2


def test_a_single_pair_has_neither_bias_nor_limits():
    result = bland_altman(pd.Series([0.5]), pd.Series([0.25]))
    assert result.differences.tolist() == [0.25]
    assert np.isnan([*result.limits, *result.bias_interval]).all()


def test_mann_whitney_by_hand():
    # Three of six ranks can be chosen in 20 ways. The observed one and its mirror image are the
    # most extreme.
    assert mann_whitney(pd.Series([1, 2, 3, NAN]), pd.Series([4.0, 5, 6])) == pytest.approx(2 / 20)
    assert mann_whitney(pd.Series([1.0, 1]), pd.Series([1.0])) == 1
    assert mann_whitney(pd.Series([NAN]), pd.Series([1.0, 2])) == 1


def test_wilcoxon_by_hand_with_seeds_averaged_first():
    # All five subjects are better on average: one of 32 sign patterns, and its mirror image.
    values = [[3, -1], [2, 1], [5, 0], [-1, 8], [4, NAN]]
    assert wilcoxon(differences(values)) == pytest.approx(2 / 32)
    assert wilcoxon(differences([[0.0, 0], [0, 0]])) == 1
    assert wilcoxon(differences([[1.0], [1], [1], [1]])) == pytest.approx(2 / 16)


def test_the_bootstrap_agrees_with_scipy_and_with_itself():
    values = np.random.default_rng(3).normal(1, 2, (15, 2))
    means = values.mean(1)
    theirs = stats.bootstrap((means,), np.mean, method="percentile", n_resamples=20_000, rng=1)
    ours = bootstrap(differences(values))
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=0.05)
    reversed_rows = differences(values).iloc[::-1]
    assert bootstrap(reversed_rows) == ours


def test_the_bootstrap_of_one_subject_is_undefined():
    assert np.isnan(bootstrap(differences([[1.0, 2]]))).all()


@pytest.mark.parametrize("shape", [(7, 1), (1, 7)], ids=["one seed", "one subject"])
def test_with_one_seed_or_one_subject_the_interval_is_students(shape):
    values = np.random.default_rng(4).normal(0.5, 1, 7)
    theirs = stats.ttest_1samp(values, 0)
    ours = interval(differences(values.reshape(shape)))
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval()))
    assert ours.p == pytest.approx(theirs.pvalue)


def squared_error(means):
    return ((means - means.mean()) ** 2).sum() / (len(means) - 1) / len(means)


def test_the_interval_of_a_crossed_design_by_analysis_of_variance():
    values = np.random.default_rng(5).normal(1, 1, (6, 3)) + np.array([0, 1, 3])
    n, m = values.shape
    subjects = values.mean(axis=1)
    seeds = values.mean(axis=0)
    a = squared_error(subjects)
    b = squared_error(seeds)
    residuals = values - subjects[:, None] - seeds + values.mean()
    residual_variance = (residuals**2).sum() / ((n - 1) * (m - 1))
    error = np.sqrt(a + b - residual_variance / (n * m))
    t = (a * stats.t.ppf(0.975, n - 1) + b * stats.t.ppf(0.975, m - 1)) / (a + b)
    result = interval(differences(values))
    expected = (values.mean() - t * error, values.mean() + t * error)
    assert (result.low, result.high) == pytest.approx(expected)


def test_the_p_value_is_where_the_interval_begins_to_exclude_0():
    values = differences(np.random.default_rng(6).normal(1, 1, (9, 4)))
    result = interval(values)
    assert 1e-4 < result.p < 0.05 < result.low
    assert interval(values, level=1 - result.p).low == pytest.approx(0, abs=1e-9)


def test_seeds_that_disagree_count_although_subjects_agree():
    seeds = np.array([1.0, 2, 6])
    theirs = stats.ttest_1samp(seeds, 0).confidence_interval()
    result = interval(differences(np.tile(seeds, (50, 1))))
    assert (result.low, result.high) == pytest.approx(tuple(theirs))


def test_each_seed_may_have_its_own_subjects():
    index = pd.MultiIndex.from_tuples([(0, 0), (1, 0), (2, 1), (3, 1)], names=["subject", "seed"])
    result = interval(pd.Series([1.0, 3, 5, 7], index))
    # The four subjects have variance 20/3, the two seeds (2 and 6) variance 8. No degree of freedom
    # is left for the residual variance.
    a = 20 / 3 / 4
    b = 8 / 2
    t = (a * 3.182446 + b * 12.706205) / (a + b)
    assert result.mean == 4
    assert result.high == pytest.approx(4 + t * np.sqrt(a + b))


def test_a_subject_counts_once_however_many_seeds_have_it():
    result = interval(differences([[1.0, 1, 1], [3, NAN, NAN]]))
    assert result.mean == 2


def test_equal_differences_have_an_interval_without_width():
    assert interval(differences(np.zeros((3, 2)))).p == 1
    same = interval(differences(np.full((3, 2), 2.0)))
    assert (same.low, same.high, same.p) == (2, 2, SMALLEST)


def test_one_pair_has_a_mean_but_no_interval():
    result = interval(differences([[2.0]]))
    assert result.mean == 2
    assert np.isnan([result.low, result.high, result.p]).all()


def test_no_data_have_no_mean():
    assert np.isnan(interval(differences([[NAN, NAN]])).mean)


def test_the_smallest_p_value_is_a_limit():
    values = np.linspace(100, 100.01, 60).reshape(20, 3)
    assert interval(differences(values)).p == SMALLEST


def test_one_difference_among_zeros_is_not_enough():
    result = interval(differences([[0.0, 0, 0], [0, 0, 0], [0, 0, 5]]))
    assert result.low < 0 < result.high


def test_holm_by_hand():
    # In ascending order: 4 x 0.005 = 0.02; 3 x 0.01 = 0.03; 2 x 0.03 = 0.06; 1 x 0.04 = 0.04, which
    # must not be smaller than the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == pytest.approx([1, 1])
    assert holm([0.02, NAN, 0.03]) == pytest.approx([0.04, NAN, 0.04], nan_ok=True)
    assert len(holm([])) == 0
