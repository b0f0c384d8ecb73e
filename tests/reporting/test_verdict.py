from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from segpl.foundation.errors import UserError
from segpl.reporting.statistics import interval, mann_whitney
from segpl.reporting.verdict import Comparison, Kind, compare, pairs, verdict, verdicts

pytestmark = pytest.mark.filterwarnings("error")
NAN = float("nan")
PAIR = ["subject", "seed"]


def runs(method, values, labelled=4, **other):
    """Scores of subjects (rows) by seeds (columns), one case and region each."""
    keys = {
        "method": method,
        "labelled": labelled,
        "region": "x",
        "shift": "clean",
        "level": 0.0,
        "metric": "iou",
    }
    rows = [
        {"run": f"{method}-{seed}", "seed": seed, "subject": f"s{subject}", "case": f"c{subject}"}
        | keys
        | {"value": value}
        | other
        for (subject, seed), value in np.ndenumerate(np.asarray(values, dtype=float))
    ]
    return pd.DataFrame(rows)


def twins(base, better, labelled=4):
    return pd.concat(
        [runs("supervised", base, labelled), runs("segpl", better, labelled)], ignore_index=True
    )


KNOWN = Comparison(
    method="segpl",
    baseline="supervised",
    labelled=4,
    budget="4",
    shift="clean",
    level=0.0,
    metric="iou",
    effect=4.21,
    low=1.9,
    high=6.5,
    p=0.004,
    subjects=12,
    seeds=3,
    left_out=0,
    wilcoxon=0.01,
    bootstrap=(2.0, 6.0),
)


def test_a_comparison_by_hand():
    found = compare(twins([[0.4], [0.5], [0.6]], [[0.41], [0.53], [0.65]]), "segpl")
    # Differences of 1, 3 and 5 points: mean 3, deviation 2, so Student's half width is 4.3027 x 2 / sqrt(3).
    assert found.effect == pytest.approx(3)
    assert (found.low, found.high) == pytest.approx((3 - 4.968275, 3 + 4.968275))
    assert found.wilcoxon == pytest.approx(2 / 8)
    assert (found.subjects, found.seeds, found.left_out, found.labelled) == (3, 1, 0, 4)


def test_several_seeds_widen_what_the_bootstrap_over_subjects_calls_sure():
    base = np.full((10, 3), 0.5)
    found = compare(
        twins(base, base + np.array([0.0, 0.02, 0.10]) + np.linspace(0, 0.01, 10)[:, None]), "segpl"
    )
    assert found.bootstrap[0] > 0 > found.low
    assert verdict(found).kind is Kind.CANNOT_TELL


def test_a_region_that_one_method_leaves_undefined_is_left_out_for_both():
    scores = pd.concat(
        [
            twins([[0.4], [0.5]], [[0.5], [0.7]]),
            runs("supervised", [[0.0], [0.0]], region="y"),
            runs("segpl", [[NAN], [0.3]], region="y"),
        ]
    )
    found = compare(scores, "segpl")
    assert found.effect == pytest.approx((10 + (20 + 30) / 2) / 2)
    assert found.left_out == 1


def test_seeds_and_subjects_without_a_twin_do_not_count():
    base = runs("supervised", [[0.4, 0.4, 0.9], [0.5, 0.5, 0.9]])
    scores = pd.concat(
        [
            base,
            runs("segpl", [[0.5, 0.6], [0.8, 0.5]]),
            runs("segpl", [[0.9], [0.9]], seed=7, run="r"),
        ]
    )
    missing = scores[
        ~((scores["method"] == "segpl") & (scores["seed"] == 1) & (scores["subject"] == "s1"))
    ]
    found = compare(missing, "segpl")
    assert (found.subjects, found.seeds, found.left_out) == (2, 2, 1)
    assert found.effect == pytest.approx((15 + 30) / 2)


def test_images_are_paired_by_their_number():
    images = [
        runs(name, [[0.2]], image=number, foreground=0.1)
        for name in ("a", "b")
        for number in range(3)
    ]
    found = pairs(pd.concat(images), "a", "b")
    assert found["image"].tolist() == [0, 1, 2]
    assert (found["method"] == found["baseline"]).all()


def test_equal_scores_differ_by_nothing_though_sums_round():
    a, b = [[0.1], [0.7]], [[0.1 + 1e-17], [0.7 - 1e-16]]
    assert a != b
    found = compare(twins(a, b), "segpl")
    assert (found.effect, found.p) == (0, 1)
    assert verdict(found).kind is Kind.CANNOT_TELL


@pytest.mark.parametrize(
    ("changed", "kind", "sentence"),
    [
        (
            {},
            Kind.HELPS,
            "The unlabelled scans help: segpl is 4.2 IoU points better than supervised training at 4 labelled subjects "
            "(95 % interval 1.9 to 6.5; 12 test subjects, 3 seeds).",
        ),
        (
            {
                "effect": -4.21,
                "low": -6.5,
                "high": -1.9,
                "seeds": 1,
                "labelled": 1,
                "shift": "ood",
                "level": 0.1,
            },
            Kind.CANNOT_TELL,
            "It cannot be told from these data whether the unlabelled scans help: segpl is 4.2 IoU points worse than "
            "supervised training at 1 labelled subject under ood 0.1 (95 % interval -6.5 to -1.9; 12 test subjects, "
            "1 seed; one seed says nothing of another training, so train both with others too).",
        ),
        (
            {"subjects": 1},
            Kind.CANNOT_TELL,
            "It cannot be told from these data whether the unlabelled scans help: segpl is 4.2 IoU points better than "
            "supervised training at 4 labelled subjects (95 % interval 1.9 to 6.5; 1 test subject, 3 seeds; one "
            "subject says nothing of another).",
        ),
        (
            {"effect": -4.21, "low": -6.5, "high": -1.9, "seeds": 2},
            Kind.HURTS,
            "The unlabelled scans hurt: segpl is 4.2 IoU points worse than supervised training at 4 labelled subjects "
            "(95 % interval -6.5 to -1.9; 12 test subjects, 2 seeds).",
        ),
        (
            {
                "effect": 0.02,
                "low": -1.5,
                "high": 1.54,
                "p": 0.9,
                "labelled": None,
                "left_out": 2,
                "metric": "dice",
            },
            Kind.CANNOT_TELL,
            "It cannot be told from these data whether the unlabelled scans help: segpl is 0.02 Dice points better "
            "than supervised training at all labelled subjects (95 % interval -1.5 to 1.5; 12 test subjects, 3 seeds; "
            "2 pairs of scores left out, undefined or missing).",
        ),
        (
            {"low": NAN, "high": NAN, "p": NAN, "subjects": 1, "seeds": 1, "baseline": "cps"},
            Kind.CANNOT_TELL,
            "It cannot be told from these data which is better: segpl is 4.2 IoU points better than cps training at 4 "
            "labelled subjects (no interval; 1 test subject, 1 seed; one seed says nothing of another training, so "
            "train both with others too; one subject says nothing of another).",
        ),
        (
            {"method": "deep-ensemble"},
            Kind.HELPS,
            "deep-ensemble is 4.2 IoU points better than supervised training at 4 labelled subjects (95 % interval 1.9 "
            "to 6.5; 12 test subjects, 3 seeds).",
        ),
    ],
)
def test_a_verdict_in_words(changed, kind, sentence):
    found = verdict(replace(KNOWN, **changed), labels_alone=("supervised", "deep-ensemble"))
    assert (found.kind, found.sentence) == (kind, sentence)


def test_nothing_is_said_about_unlabelled_scans_where_their_use_is_unknown():
    found = verdict(KNOWN, of_unknown_use=["segpl"])
    assert found.kind is Kind.HELPS
    assert found.sentence.startswith("segpl is 4.2 IoU points better than supervised training")
    baseline = verdict(KNOWN, labels_alone=[], of_unknown_use=["supervised"])
    assert baseline.sentence == found.sentence


def test_among_several_a_verdict_must_survive_the_correction():
    draw = np.random.default_rng(0)
    base = draw.uniform(0.3, 0.7, (12, 3))
    gains = {"clear": 0.2, "narrow": 0.042, "same": 0.0, "worse": -0.2}
    scores = [
        runs(name, base + gain + draw.normal(0, 0.04, (12, 3))) for name, gain in gains.items()
    ]
    found = {
        one.comparison.method: one
        for one in verdicts(pd.concat([runs("supervised", base), *scores]))
    }
    expected = [Kind.HELPS, Kind.CANNOT_TELL, Kind.CANNOT_TELL, Kind.HURTS]
    assert [found[name].kind for name in gains] == expected
    narrow = found["narrow"]
    assert narrow.comparison.low > 0
    assert verdict(narrow.comparison).kind is Kind.HELPS
    assert narrow.p == pytest.approx(2 * narrow.comparison.p)
    assert (
        f"p = {narrow.p:.2g} after Holm's correction for 4 comparisons, so it does not hold"
        in narrow.sentence
    )


def test_each_budget_is_compared_with_its_own_baseline():
    scores = pd.concat(
        [twins([[0.2], [0.3]], [[0.3], [0.4]], 2), twins([[0.6], [0.7]], [[0.5], [0.6]], None)]
    )
    assert [(one.comparison.labelled, one.comparison.effect) for one in verdicts(scores)] == [
        (2, pytest.approx(10)),
        (None, pytest.approx(-10)),
    ]


TWINS = twins([[0.2, 0.3], [0.3, 0.4]], [[0.3, 0.4], [0.4, 0.5]])
ALONE = TWINS[TWINS["method"] == "segpl"]


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (
            ALONE,
            "There is no iou of supervised under clean 0 at 4 labelled subjects: train and evaluate it.",
        ),
        (TWINS.assign(metric="dice"), "no iou of segpl"),
        (
            pd.concat([ALONE, runs("supervised", [[0.1]], 2)]),
            "have 4 labelled subjects and 2 labelled subjects",
        ),
        (
            pd.concat([TWINS, TWINS.assign(labelled=2)]),
            "2 labelled subjects or 4 labelled subjects",
        ),
        (
            pd.concat([ALONE, runs("supervised", [[0.1]]).assign(seed=7)]),
            "segpl and supervised have no seed in common",
        ),
        (
            pd.concat([ALONE, runs("supervised", [[0.1]]).assign(subject="t")]),
            "have no subject in common at 4 label",
        ),
        (pd.concat([TWINS, ALONE]), "segpl twice with one seed"),
        (
            pd.concat([TWINS, ALONE.assign(run="other", subject="t")]),
            "runs segpl-0, segpl-1, other, other",
        ),
        (TWINS.assign(value=NAN), "no iou that is defined for both"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(scores, message):
    with pytest.raises(UserError, match=message):
        compare(scores, "segpl")


def test_subjects_must_be_shared_within_a_seed():
    crossed = pd.concat(
        [runs("supervised", [[0.1, 0.1]]), runs("supervised", [[0.1]], subject="t", seed=2)]
    )
    scores = pd.concat(
        [crossed, runs("segpl", [[0.1]], subject="t"), runs("segpl", [[0.1]], seed=2, run="r")]
    )
    with pytest.raises(UserError, match="no subject in common"):
        compare(scores, "segpl")


def test_a_baseline_that_is_missing_at_one_budget_is_named():
    with pytest.raises(
        UserError, match="no iou of supervised under clean 0 at 8 labelled subjects"
    ):
        verdicts(pd.concat([TWINS, ALONE.assign(labelled=8)]))


def test_a_verdict_needs_two_methods_and_a_metric_of_which_more_is_better():
    with pytest.raises(UserError, match="nothing but segpl"):
        verdicts(ALONE, baseline="segpl")
    with pytest.raises(UserError, match="cannot be about brier"):
        compare(TWINS, "segpl", metric="brier")


def simulated(subjects, seeds, seed_spread, effect, times, slices=12):
    """Slices of two methods, times x subjects x seeds x slices: what a subject or a training does, its slices share."""
    draw = np.random.default_rng(subjects + seeds)
    shape = (times, subjects, seeds)
    scan = draw.normal(0.45, 0.12, (times, subjects, 1, 1)) + draw.normal(
        0, 0.1, (times, subjects, 1, slices)
    )
    gain = (
        effect
        + draw.normal(0, 0.05, (times, subjects, 1))
        + draw.normal(0, seed_spread, (times, 1, seeds))
        + draw.normal(0, 0.03, shape)
    )
    base, better = (
        draw.normal(scan + more, 0.02, (*shape, slices)) for more in (0, gain[..., None])
    )
    return base.clip(0, 1), better.clip(0, 1)


def kinds(base, better):
    """A verdict of each simulated study."""
    gains = 100 * (better - base).mean(-1)
    pairs = pd.MultiIndex.from_product([range(size) for size in gains.shape[1:]], names=PAIR)
    for gain in gains.reshape(len(gains), -1):
        found = interval(pd.Series(gain, pairs))
        known = replace(KNOWN, subjects=gains.shape[1], seeds=gains.shape[2])
        yield verdict(
            replace(known, effect=found.mean, low=found.low, high=found.high, p=found.p)
        ).kind


DESIGNS = [(8, 3, 0.0), (8, 3, 0.05), (20, 5, 0.02), (20, 5, 0.05), (65, 3, 0.0), (65, 3, 0.05)]


@pytest.mark.parametrize(("subjects", "seeds", "seed_spread"), DESIGNS)
def test_the_verdict_finds_a_large_effect_and_seldom_one_that_is_not_there(
    subjects, seeds, seed_spread
):
    large = list(kinds(*simulated(subjects, seeds, seed_spread, effect=0.3, times=200)))
    assert large.count(Kind.HELPS) >= 0.9 * 200
    assert Kind.HURTS not in large
    none = list(kinds(*simulated(subjects, seeds, seed_spread, effect=0.0, times=200)))
    assert none.count(Kind.HELPS) <= 0.05 * 200
    assert none.count(Kind.HURTS) <= 0.05 * 200


def test_mann_whitney_over_slices_finds_what_is_not_there():
    studies = zip(*simulated(8, 3, 0.05, effect=0.0, times=200), strict=True)
    found = [
        mann_whitney(*(pd.Series(slices.ravel()) for slices in pair)) < 0.05 for pair in studies
    ]
    assert np.mean(found) > 0.3


def test_subjects_alone_find_what_only_a_lucky_training_did():
    base, better = simulated(20, 3, 0.05, effect=0.0, times=200)
    gains = 100 * (better - base).mean(-1)[:, :, 0]
    first = [
        interval(pd.Series(gain, pd.MultiIndex.from_product([range(20), [0]], names=PAIR)))
        for gain in gains
    ]
    assert sum(one.low > 0 for one in first) > 0.15 * 200  # hence no verdict on one seed
    assert set(kinds(base[:, :, :1], better[:, :, :1])) == {Kind.CANNOT_TELL}
    assert list(kinds(base, better)).count(Kind.HELPS) <= 0.05 * 200


def test_the_simulated_verdicts_are_those_of_the_whole_way_from_scores():
    base, better = simulated(8, 3, 0.02, effect=0.08, times=4)
    ways = [
        verdict(compare(twins(*pair), "segpl")).kind
        for pair in zip(base.mean(-1), better.mean(-1), strict=True)
    ]
    assert ways == list(kinds(base, better))
    assert len(set(ways)) == 2
