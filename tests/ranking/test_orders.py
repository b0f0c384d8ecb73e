"""The orders, on scans that can be counted on the fingers."""

import numpy as np
import pytest

from segpl.ranking.orders import ORDERS, Pool, diverse, novelty, ordered, standardised, uncertain


def pool(uncertainty, features, labelled=(), disagreement=None, names=None):
    count = len(uncertainty)
    doubts = np.array(uncertainty, float), np.array(disagreement or uncertainty, float)
    column = [np.array(values, float).reshape(-1, 1) for values in (features, labelled)]
    return Pool(names or [f"scan_{place}" for place in range(count)], *doubts, *column)


def scans(picks):
    return [pick.scan for pick in picks]


def test_the_most_uncertain_come_first():
    assert scans(ordered(pool([0.2, 0.9, 0.5], [0, 0, 0]), 3, uncertain)) == [1, 2, 0]


def test_farthest_first_by_hand():
    """Beside a label at 0 the farthest of 1, 4, 5 and 10 is 10; then 4 and 5 are 4 and 5 away from what is taken."""
    picks = ordered(pool([0.5] * 4, [1, 4, 5, 10], labelled=[0]), 4, diverse)
    assert scans(picks) == [3, 2, 0, 1]
    assert [pick.distance for pick in picks] == [10, 5, 1, 1]
    assert [pick.score for pick in picks] == [5, 2.5, 0.5, 0.5]
    assert [pick.nearest for pick in picks] == [None, None, None, 2], (
        "5 is as near to the label as to 10"
    )


def test_a_scan_that_is_twice_as_doubtful_may_be_half_as_far():
    assert scans(ordered(pool([0.3, 0.7], [10, 5], labelled=[0]), 1, diverse)) == [1]
    assert scans(ordered(pool([0.4, 0.7], [10, 5], labelled=[0]), 1, diverse)) == [0]


def test_doubt_counts_uncertainty_and_disagreement_alike():
    doubtful = pool([0.4, 0.4, 0.6], [1, 1, 1], labelled=[0], disagreement=[0.1, 0.4, 0.1])
    picks = ordered(doubtful, 1, diverse)
    assert (picks[0].scan, picks[0].score) == (1, pytest.approx(0.4))


def test_who_is_sure_of_something_quite_new_is_asked_about_it():
    assert scans(ordered(pool([0.0, 0.4, 0.4], [100, 1, 2], labelled=[0]), 1, diverse)) == [0]


def test_copies_come_last():
    picks = ordered(pool([0.9] * 5 + [0.2, 0.1], [7] * 5 + [3, 5], labelled=[0]), 7, diverse)
    assert set(scans(picks)[1:3]) == {5, 6}
    assert [pick.score for pick in picks[3:]] == [0] * 4
    assert {pick.nearest for pick in picks[3:]} == {picks[0].scan}


def test_without_labelled_scans_the_most_doubtful_opens_the_order():
    alone = pool([0.2, 0.6, 0.4], [0, 1, 5])
    picks = ordered(alone, 3, diverse)
    assert scans(picks) == [1, 2, 0]
    assert np.isinf(picks[0].distance)
    assert picks[0].nearest is None
    assert np.isnan(novelty(alone)).all()


@pytest.mark.parametrize("order", ORDERS)
def test_equal_scans_go_by_name_wherever_they_stand(order):
    equal = pool([0.5] * 3, [2] * 3, labelled=[0], names=["c", "a", "b"])
    assert scans(ordered(equal, 3, ORDERS[order])) == [1, 2, 0]


@pytest.mark.parametrize("order", ORDERS)
def test_fewer_scans_are_the_head_of_the_order(order):
    draw = np.random.default_rng(0)
    many = pool(draw.random(20), draw.random(20), draw.random(3))
    assert ordered(many, 6, ORDERS[order]) == ordered(many, 20, ORDERS[order])[:6]
    assert sorted(scans(ordered(many, 99, ORDERS[order]))) == list(range(20))


def test_novelty_is_the_distance_to_the_nearest_labelled_scan():
    assert novelty(pool([0.1] * 4, [0, 1, 4, 10], labelled=[0, 8])).tolist() == [0, 1, 4, 2]


def test_unrelated_scans_are_about_root_two_apart():
    draw = np.random.default_rng(0)
    scale = 10.0 ** draw.integers(-3, 4, 400)
    many, labelled = standardised(
        draw.normal(5, 1, (60, 400)) * scale, draw.normal(5, 1, (4, 400)) * scale
    )
    apart = np.linalg.norm(many[:30] - many[30:], axis=1)
    assert np.allclose(apart, np.sqrt(2), rtol=0.15)
    assert (many.shape, labelled.shape) == ((60, 400), (4, 400))


def test_a_feature_that_never_differs_tells_nothing():
    features = np.array([[3.0, 1.0], [3.0, 2.0], [3.0, 3.0]])
    scaled, _ = standardised(features, features[:0])
    assert scaled.shape == (3, 1)
    same, labelled = standardised(features[:1], features[:1])
    assert np.array_equal(same, labelled)
