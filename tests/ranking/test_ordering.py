"""The orders, on a few scans with one feature each."""

import numpy as np
import pytest

from segpl.ranking.ordering import (
    ORDERS,
    Pool,
    diverse,
    novelty,
    pick_scans,
    standardised,
    uncertain,
)


def column(values):
    return np.array(values, float).reshape(-1, 1)


def pool(uncertainty, features, labelled=(), disagreement=None, names=None):
    """Scans with one feature each; the disagreement is the uncertainty unless it is given."""
    return Pool(
        names=names or [f"scan_{index}" for index in range(len(uncertainty))],
        uncertainty=np.array(uncertainty, float),
        disagreement=np.array(disagreement or uncertainty, float),
        features=column(features),
        labelled=column(labelled),
    )


def scans(picks):
    return [pick.scan for pick in picks]


def test_the_most_uncertain_come_first():
    picks = pick_scans(pool([0.2, 0.9, 0.5], [0, 0, 0]), 3, uncertain)
    assert scans(picks) == [1, 2, 0]


def test_the_farthest_come_first():
    """With a label at 0 the farthest is 10. Then 4 and 5 are 4 and 5 away from the nearest."""
    picks = pick_scans(pool([0.5] * 4, [1, 4, 5, 10], labelled=[0]), 4, diverse)
    assert scans(picks) == [3, 2, 0, 1]
    assert [pick.distance for pick in picks] == [10, 5, 1, 1]
    assert [pick.score for pick in picks] == [5, 2.5, 0.5, 0.5]


def test_of_a_label_and_a_scan_at_the_same_distance_the_label_is_the_nearest():
    picks = pick_scans(pool([0.5] * 4, [1, 4, 5, 10], labelled=[0]), 4, diverse)
    assert [pick.nearest for pick in picks] == [None, None, None, 2]


@pytest.mark.parametrize(("doubt_of_far_scan", "first"), [(0.3, 1), (0.4, 0)])
def test_twice_the_doubt_outweighs_half_the_distance(doubt_of_far_scan, first):
    far_and_near = pool([doubt_of_far_scan, 0.7], [10, 5], labelled=[0])
    assert scans(pick_scans(far_and_near, 1, diverse)) == [first]


def test_doubt_counts_uncertainty_and_disagreement_alike():
    doubtful = pool([0.4, 0.4, 0.6], [1, 1, 1], labelled=[0], disagreement=[0.1, 0.4, 0.1])
    picks = pick_scans(doubtful, 1, diverse)
    assert picks[0].scan == 1
    assert picks[0].score == pytest.approx(0.4)


def test_a_scan_unlike_all_others_comes_first_even_if_it_is_certain():
    certain_but_new = pool([0.0, 0.4, 0.4], [100, 1, 2], labelled=[0])
    assert scans(pick_scans(certain_but_new, 1, diverse)) == [0]


def test_copies_come_last():
    picks = pick_scans(pool([0.9] * 5 + [0.2, 0.1], [7] * 5 + [3, 5], labelled=[0]), 7, diverse)
    assert set(scans(picks)[1:3]) == {5, 6}
    assert [pick.score for pick in picks[3:]] == [0] * 4
    assert {pick.nearest for pick in picks[3:]} == {picks[0].scan}


def test_without_labelled_scans_the_most_doubtful_comes_first():
    picks = pick_scans(pool([0.2, 0.6, 0.4], [0, 1, 5]), 3, diverse)
    assert scans(picks) == [1, 2, 0]
    assert np.isinf(picks[0].distance)
    assert picks[0].nearest is None


@pytest.mark.parametrize("order", ORDERS)
def test_equal_scans_are_ordered_by_name(order):
    equal = pool([0.5] * 3, [2] * 3, labelled=[0], names=["c", "a", "b"])
    assert scans(pick_scans(equal, 3, ORDERS[order])) == [1, 2, 0]


@pytest.mark.parametrize("order", ORDERS)
def test_a_smaller_count_gives_the_first_scans_of_the_order(order):
    generator = np.random.default_rng(0)
    twenty = pool(generator.random(20), generator.random(20), generator.random(3))
    all_picks = pick_scans(twenty, 20, ORDERS[order])
    assert pick_scans(twenty, 6, ORDERS[order]) == all_picks[:6]


@pytest.mark.parametrize("order", ORDERS)
def test_a_larger_count_than_there_are_scans_gives_all_of_them(order):
    generator = np.random.default_rng(0)
    twenty = pool(generator.random(20), generator.random(20), generator.random(3))
    assert sorted(scans(pick_scans(twenty, 99, ORDERS[order]))) == list(range(20))


def test_novelty_is_the_distance_to_the_nearest_labelled_scan():
    assert novelty(pool([0.1] * 4, [0, 1, 4, 10], labelled=[0, 8])).tolist() == [0, 1, 4, 2]


def test_novelty_is_undefined_without_labelled_scans():
    assert np.isnan(novelty(pool([0.2, 0.6, 0.4], [0, 1, 5]))).all()


def test_unrelated_scans_are_about_root_two_apart():
    generator = np.random.default_rng(0)
    scale = 10.0 ** generator.integers(-3, 4, 400)
    unlabelled = generator.normal(5, 1, (60, 400)) * scale
    labelled = generator.normal(5, 1, (4, 400)) * scale
    scaled, scaled_labelled = standardised(unlabelled, labelled)
    distances = np.linalg.norm(scaled[:30] - scaled[30:], axis=1)
    assert np.allclose(distances, np.sqrt(2), rtol=0.15)
    assert scaled.shape == (60, 400)
    assert scaled_labelled.shape == (4, 400)


def test_a_constant_feature_is_removed():
    features = np.array([[3.0, 1.0], [3.0, 2.0], [3.0, 3.0]])
    scaled, _ = standardised(features, features[:0])
    assert scaled.shape == (3, 1)


def test_two_equal_scans_stay_equal():
    features = np.array([[3.0, 1.0]])
    scaled, scaled_labelled = standardised(features, features)
    assert np.array_equal(scaled, scaled_labelled)
