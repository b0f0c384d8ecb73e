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
    rows = []
    for (subject, seed), value in np.ndenumerate(np.asarray(values, dtype=float)):
        row = {
            "run": f"{method}-{seed}",
            "seed": seed,
            "subject": f"s{subject}",
            "case": f"c{subject}",
            "method": method,
            "labelled": labelled,
            "region": "x",
            "shift": "clean",
            "level": 0.0,
            "metric": "iou",
            "value": value,
        }
        rows.append(row | other)
    return pd.DataFrame(rows)


def twins(base, better, labelled=4):
    """Scores of supervised and segpl, which differ in nothing but the method."""
    supervised = runs("supervised", base, labelled)
    segpl = runs("segpl", better, labelled)
    return pd.concat([supervised, segpl], ignore_index=True)


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
    result = compare(twins([[0.4], [0.5], [0.6]], [[0.41], [0.53], [0.65]]), "segpl")
    # Differences of 1, 3 and 5 points: mean 3, standard deviation 2. Student's half width is
    # 4.3027 x 2 / sqrt(3).
    assert result.effect == pytest.approx(3)
    assert (result.low, result.high) == pytest.approx((3 - 4.968275, 3 + 4.968275))
    assert result.wilcoxon == pytest.approx(2 / 8)
    assert (result.subjects, result.seeds, result.left_out, result.labelled) == (3, 1, 0, 4)


def test_seeds_that_disagree_widen_the_interval_but_not_the_bootstrap():
    base = np.full((10, 3), 0.5)
    gain_of_seeds = np.array([0.0, 0.02, 0.10])
    gain_of_subjects = np.linspace(0, 0.01, 10)[:, None]
    result = compare(twins(base, base + gain_of_seeds + gain_of_subjects), "segpl")
    assert result.bootstrap[0] > 0 > result.low
    assert verdict(result).kind is Kind.INCONCLUSIVE


def test_a_region_that_one_method_leaves_undefined_is_left_out_for_both():
    scores = pd.concat(
        [
            twins([[0.4], [0.5]], [[0.5], [0.7]]),
            runs("supervised", [[0.0], [0.0]], region="y"),
            runs("segpl", [[NAN], [0.3]], region="y"),
        ]
    )
    result = compare(scores, "segpl")
    assert result.effect == pytest.approx((10 + (20 + 30) / 2) / 2)
    assert result.left_out == 1


def test_seeds_and_subjects_that_only_one_method_has_do_not_count():
    base = runs("supervised", [[0.4, 0.4, 0.9], [0.5, 0.5, 0.9]])
    better = runs("segpl", [[0.5, 0.6], [0.8, 0.5]])
    is_missing = (better["seed"] == 1) & (better["subject"] == "s1")
    other_seed = runs("segpl", [[0.9], [0.9]], seed=7, run="r")
    scores = pd.concat([base, better[~is_missing], other_seed])
    result = compare(scores, "segpl")
    assert (result.subjects, result.seeds, result.left_out) == (2, 2, 1)
    assert result.effect == pytest.approx((15 + 30) / 2)


def test_images_are_paired_by_their_number():
    images = []
    for number in range(3):
        images.append(runs("a", [[0.2]], image=number, foreground=0.1))
        images.append(runs("b", [[0.2]], image=number, foreground=0.1))
    result = pairs(pd.concat(images), "a", "b")
    assert result["image"].tolist() == [0, 1, 2]
    assert (result["method"] == result["baseline"]).all()


def test_a_difference_by_rounding_is_no_difference():
    base = [[0.1], [0.7]]
    rounded = [[0.1 + 1e-17], [0.7 - 1e-16]]
    assert base != rounded
    result = compare(twins(base, rounded), "segpl")
    assert (result.effect, result.p) == (0, 1)
    assert verdict(result).kind is Kind.INCONCLUSIVE


SCANS_INCONCLUSIVE = "Inconclusive: these data do not show whether the unlabelled scans help. "
METHODS_INCONCLUSIVE = "Inconclusive: these data do not show which is better. "
ONE_SEED = (
    "one seed is not enough to separate the method's effect from chance, "
    "so train both with more seeds"
)
ONE_SUBJECT = "one test subject is not enough to draw conclusions about others"


@pytest.mark.parametrize(
    ("changed", "kind", "sentence"),
    [
        pytest.param(
            {},
            Kind.HELPS,
            "The unlabelled scans help: segpl is 4.2 IoU points better than supervised training "
            "at 4 labelled subjects (95 % interval 1.9 to 6.5; 12 test subjects, 3 seeds).",
            id="helps",
        ),
        pytest.param(
            {"effect": -4.21, "low": -6.5, "high": -1.9, "seeds": 2},
            Kind.HURTS,
            "The unlabelled scans hurt: segpl is 4.2 IoU points worse than supervised training "
            "at 4 labelled subjects (95 % interval -6.5 to -1.9; 12 test subjects, 2 seeds).",
            id="hurts",
        ),
        pytest.param(
            {"seeds": 1, "labelled": 1, "shift": "ood", "level": 0.1},
            Kind.INCONCLUSIVE,
            f"{SCANS_INCONCLUSIVE}segpl is 4.2 IoU points better than supervised training "
            "at 1 labelled subject under ood 0.1 "
            f"(95 % interval 1.9 to 6.5; 12 test subjects, 1 seed; {ONE_SEED}).",
            id="one seed",
        ),
        pytest.param(
            {"subjects": 1},
            Kind.INCONCLUSIVE,
            f"{SCANS_INCONCLUSIVE}segpl is 4.2 IoU points better than supervised training "
            "at 4 labelled subjects "
            f"(95 % interval 1.9 to 6.5; 1 test subject, 3 seeds; {ONE_SUBJECT}).",
            id="one subject",
        ),
        pytest.param(
            {
                "effect": 0.02,
                "low": -1.5,
                "high": 1.54,
                "p": 0.9,
                "labelled": None,
                "left_out": 2,
                "metric": "dice",
            },
            Kind.INCONCLUSIVE,
            f"{SCANS_INCONCLUSIVE}segpl is 0.02 Dice points better than supervised training "
            "at all labelled subjects (95 % interval -1.5 to 1.5; 12 test subjects, 3 seeds; "
            "2 pairs of scores left out, undefined or missing).",
            id="interval around 0",
        ),
        pytest.param(
            {"low": NAN, "high": NAN, "p": NAN, "subjects": 1, "seeds": 1, "baseline": "cps"},
            Kind.INCONCLUSIVE,
            f"{METHODS_INCONCLUSIVE}segpl is 4.2 IoU points better than cps training "
            "at 4 labelled subjects "
            f"(no interval; 1 test subject, 1 seed; {ONE_SEED}; {ONE_SUBJECT}).",
            id="no interval",
        ),
        pytest.param(
            {"method": "deep-ensemble"},
            Kind.HELPS,
            "deep-ensemble is 4.2 IoU points better than supervised training "
            "at 4 labelled subjects (95 % interval 1.9 to 6.5; 12 test subjects, 3 seeds).",
            id="both learn from labels only",
        ),
        pytest.param(
            {"budget": "4 labelled, 50 slices"},
            Kind.HELPS,
            "The unlabelled scans help: segpl is 4.2 IoU points better than supervised training "
            "at 4 labelled subjects, 50 slices "
            "(95 % interval 1.9 to 6.5; 12 test subjects, 3 seeds).",
            id="a budget of slices",
        ),
    ],
)
def test_a_verdict_in_words(changed, kind, sentence):
    result = verdict(replace(KNOWN, **changed), labels_only=("supervised", "deep-ensemble"))
    assert (result.kind, result.sentence) == (kind, sentence)


def test_nothing_is_said_about_unlabelled_scans_where_their_use_is_unknown():
    result = verdict(KNOWN, unknown_use=["segpl"])
    assert result.kind is Kind.HELPS
    assert result.sentence.startswith("segpl is 4.2 IoU points better than supervised training")
    baseline = verdict(KNOWN, labels_only=[], unknown_use=["supervised"])
    assert baseline.sentence == result.sentence


def test_among_several_a_verdict_must_survive_the_correction():
    draw = np.random.default_rng(0)
    base = draw.uniform(0.3, 0.7, (12, 3))
    gains = {"clear": 0.2, "narrow": 0.042, "same": 0.0, "worse": -0.2}
    scores = [runs("supervised", base)]
    for name, gain in gains.items():
        scores.append(runs(name, base + gain + draw.normal(0, 0.04, (12, 3))))
    result = {answer.comparison.method: answer for answer in verdicts(pd.concat(scores))}
    expected = [Kind.HELPS, Kind.INCONCLUSIVE, Kind.INCONCLUSIVE, Kind.HURTS]
    assert [result[name].kind for name in gains] == expected
    narrow = result["narrow"]
    assert narrow.comparison.low > 0
    assert verdict(narrow.comparison).kind is Kind.HELPS
    assert narrow.p == pytest.approx(2 * narrow.comparison.p)
    correction = f"p = {narrow.p:.2g} after Holm's correction for 4 comparisons"
    assert f"{correction}, so it is not significant" in narrow.sentence


def test_each_budget_is_compared_with_its_own_baseline():
    two_labelled = twins([[0.2], [0.3]], [[0.3], [0.4]], labelled=2)
    all_labelled = twins([[0.6], [0.7]], [[0.5], [0.6]], labelled=None)
    first, second = verdicts(pd.concat([two_labelled, all_labelled]))
    assert first.comparison.labelled == 2
    assert first.comparison.effect == pytest.approx(10)
    assert second.comparison.labelled is None
    assert second.comparison.effect == pytest.approx(-10)


TWINS = twins([[0.2, 0.3], [0.3, 0.4]], [[0.3, 0.4], [0.4, 0.5]])
ALONE = TWINS[TWINS["method"] == "segpl"]


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        pytest.param(
            ALONE,
            "There is no iou of supervised under clean 0 at 4 labelled subjects: "
            "train supervised and evaluate it.",
            id="no baseline",
        ),
        pytest.param(TWINS.assign(metric="dice"), "no iou of segpl", id="no metric"),
        pytest.param(
            pd.concat([ALONE, runs("supervised", [[0.1]], 2)]),
            "have 4 labelled subjects and 2 labelled subjects",
            id="different budgets",
        ),
        pytest.param(
            pd.concat([TWINS, TWINS.assign(labelled=2)]),
            "2 labelled subjects or 4 labelled subjects",
            id="two budgets",
        ),
        pytest.param(
            pd.concat([ALONE, runs("supervised", [[0.1]]).assign(seed=7)]),
            "segpl and supervised have no seed in common",
            id="different seeds",
        ),
        pytest.param(
            pd.concat([ALONE, runs("supervised", [[0.1]]).assign(subject="t")]),
            "have no subject in common at 4 labelled subjects",
            id="different subjects",
        ),
        pytest.param(pd.concat([TWINS, ALONE]), "segpl twice with one seed", id="scores twice"),
        pytest.param(
            pd.concat([TWINS, ALONE.assign(run="other", subject="t")]),
            "runs segpl-0, segpl-1, other, other",
            id="two runs of a seed",
        ),
        pytest.param(
            TWINS.assign(value=NAN), "no iou that is defined for both", id="all undefined"
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(scores, message):
    with pytest.raises(UserError, match=message):
        compare(scores, "segpl")


def test_subjects_must_be_shared_within_a_seed():
    scores = [
        runs("supervised", [[0.1, 0.1]]),
        runs("supervised", [[0.1]], subject="t", seed=2),
        runs("segpl", [[0.1]], subject="t"),
        runs("segpl", [[0.1]], seed=2, run="r"),
    ]
    with pytest.raises(UserError, match="no subject in common"):
        compare(pd.concat(scores), "segpl")


def test_a_baseline_that_is_missing_at_one_budget_is_named():
    message = "no iou of supervised under clean 0 at 8 labelled subjects"
    with pytest.raises(UserError, match=message):
        verdicts(pd.concat([TWINS, ALONE.assign(labelled=8)]))


def test_a_verdict_needs_two_methods():
    with pytest.raises(UserError, match="nothing but segpl"):
        verdicts(ALONE, baseline="segpl")


def test_a_verdict_needs_a_metric_of_which_higher_is_better():
    with pytest.raises(UserError, match="cannot be about brier"):
        compare(TWINS, "segpl", metric="brier")


def simulated(subjects, seeds, seed_spread, effect, studies, slices=12):
    """Slices of a baseline and a method, each of shape studies x subjects x seeds x slices.

    The slices of a subject share its difficulty, and the slices of a training share its luck.
    """
    draw = np.random.default_rng(subjects + seeds)
    scan_mean = draw.normal(0.45, 0.12, (studies, subjects, 1, 1))
    scan = scan_mean + draw.normal(0, 0.1, (studies, subjects, 1, slices))
    gain = effect + draw.normal(0, 0.05, (studies, subjects, 1))
    gain = gain + draw.normal(0, seed_spread, (studies, 1, seeds))
    gain = gain + draw.normal(0, 0.03, (studies, subjects, seeds))
    shape = (studies, subjects, seeds, slices)
    base = draw.normal(scan, 0.02, shape)
    better = draw.normal(scan + gain[..., None], 0.02, shape)
    return base.clip(0, 1), better.clip(0, 1)


def gains_in_points(base, better):
    """The mean gain over slices, of shape studies x subjects x seeds."""
    return 100 * (better - base).mean(-1)


def simulated_interval(gains):
    """The interval of one study, from gains of shape subjects x seeds."""
    subjects, seeds = gains.shape
    index = pd.MultiIndex.from_product([range(subjects), range(seeds)], names=PAIR)
    return interval(pd.Series(gains.ravel(), index))


def simulated_verdicts(base, better):
    """The verdict on each simulated study."""
    answers = []
    for gains in gains_in_points(base, better):
        subjects, seeds = gains.shape
        result = simulated_interval(gains)
        comparison = replace(
            KNOWN,
            subjects=subjects,
            seeds=seeds,
            effect=result.mean,
            low=result.low,
            high=result.high,
            p=result.p,
        )
        answers.append(verdict(comparison).kind)
    return answers


DESIGNS = [(8, 3, 0.0), (8, 3, 0.05), (20, 5, 0.02), (20, 5, 0.05), (65, 3, 0.0), (65, 3, 0.05)]


@pytest.mark.parametrize(("subjects", "seeds", "seed_spread"), DESIGNS)
def test_the_verdict_finds_a_large_effect(subjects, seeds, seed_spread):
    result = simulated_verdicts(*simulated(subjects, seeds, seed_spread, effect=0.3, studies=200))
    assert result.count(Kind.HELPS) >= 0.9 * 200
    assert Kind.HURTS not in result


@pytest.mark.parametrize(("subjects", "seeds", "seed_spread"), DESIGNS)
def test_the_verdict_seldom_finds_an_effect_that_does_not_exist(subjects, seeds, seed_spread):
    result = simulated_verdicts(*simulated(subjects, seeds, seed_spread, effect=0.0, studies=200))
    assert result.count(Kind.HELPS) <= 0.05 * 200
    assert result.count(Kind.HURTS) <= 0.05 * 200


def test_mann_whitney_over_slices_finds_effects_that_do_not_exist():
    base, better = simulated(8, 3, 0.05, effect=0.0, studies=200)
    is_significant = []
    for base_slices, better_slices in zip(base, better, strict=True):
        p = mann_whitney(pd.Series(base_slices.ravel()), pd.Series(better_slices.ravel()))
        is_significant.append(p < 0.05)
    assert np.mean(is_significant) > 0.3


def test_one_seed_is_inconclusive_because_a_lucky_training_looks_like_an_effect():
    base, better = simulated(20, 3, 0.05, effect=0.0, studies=200)
    gains_of_one_seed = gains_in_points(base, better)[:, :, :1]
    intervals = [simulated_interval(gains) for gains in gains_of_one_seed]
    assert sum(result.low > 0 for result in intervals) > 0.15 * 200
    assert set(simulated_verdicts(base[:, :, :1], better[:, :, :1])) == {Kind.INCONCLUSIVE}
    assert simulated_verdicts(base, better).count(Kind.HELPS) <= 0.05 * 200


def test_the_simulated_verdicts_agree_with_verdicts_from_scores():
    base, better = simulated(8, 3, 0.02, effect=0.08, studies=4)
    from_scores = []
    for base_means, better_means in zip(base.mean(-1), better.mean(-1), strict=True):
        comparison = compare(twins(base_means, better_means), "segpl")
        from_scores.append(verdict(comparison).kind)
    assert from_scores == simulated_verdicts(base, better)
    assert len(set(from_scores)) == 2
