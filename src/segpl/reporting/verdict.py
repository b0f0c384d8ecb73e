"""Do the unlabelled scans help? Two methods compared on the same subjects and seeds."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pandas as pd

from segpl.foundation.errors import UserError
from segpl.reporting.grammar import plural
from segpl.reporting.statistics import LEVEL, bootstrap, holm, interval, mean_of_regions, wilcoxon

POINTS = {"iou": "IoU", "mean_iou": "mean IoU", "dice": "Dice", "surface_dice": "surface Dice"}
"""The metrics that a verdict can be about: fractions of 1 of which higher is better."""
DEFAULT_BASELINE = "supervised"
"""The method that others are compared with by default. It learns from labels only."""
SIGNIFICANT = 1 - LEVEL
"""A verdict needs a p-value below this."""


@dataclass(frozen=True)
class Comparison:
    """A method against a baseline: the mean difference over subjects, in points (hundredths).

    `low` and `high` bound the 95 % interval over subjects and seeds, and `p` belongs to it. All
    three are undefined if there is one subject and one seed. `wilcoxon` (a p-value) and `bootstrap`
    (a 95 % interval) consider the subjects only.
    """

    method: str
    baseline: str
    labelled: int | None
    """Number of labelled subjects of both methods; None if all subjects are labelled."""
    budget: str | None
    """What a study calls this number, if the scores have a column for it."""
    shift: str
    level: float
    metric: str
    effect: float
    low: float
    high: float
    p: float
    subjects: int
    seeds: int
    left_out: int
    """Pairs of scores (same seed, case and region) with an undefined or missing score."""
    wilcoxon: float
    bootstrap: tuple[float, float]


class Kind(Enum):
    """The three possible answers."""

    HELPS = "helps"
    INCONCLUSIVE = "inconclusive"
    HURTS = "hurts"


OPENING_ON_METHODS = {
    Kind.HELPS: "",
    Kind.INCONCLUSIVE: "Inconclusive: these data do not show which is better. ",
    Kind.HURTS: "",
}
OPENING_ON_SCANS = {
    Kind.HELPS: "The unlabelled scans help: ",
    Kind.INCONCLUSIVE: ("Inconclusive: these data do not show whether the unlabelled scans help. "),
    Kind.HURTS: "The unlabelled scans hurt: ",
}


@dataclass(frozen=True)
class Verdict:
    """The answer, also in words, and the comparison behind it."""

    kind: Kind
    sentence: str
    comparison: Comparison
    p: float
    """Corrected for the number of comparisons, if there are several."""


def pairs(
    scores: pd.DataFrame,
    method: str,
    baseline: str,
    metric: str = "iou",
    shift: str = "clean",
    level: float = 0.0,
) -> pd.DataFrame:
    """The values of two methods side by side, in the columns `method` and `baseline`.

    There is a row for each subject, case, region (and image, in a table of images) of each seed
    that both methods have. Both must have the same number of labelled subjects and one run per
    seed.
    """
    is_wanted = (scores["metric"] == metric) & (scores["shift"] == shift)
    is_wanted &= np.isclose(scores["level"], level)
    wanted = scores[is_wanted]
    of_method = wanted[wanted["method"] == method]
    of_baseline = wanted[wanted["method"] == baseline]
    for name, rows in ((method, of_method), (baseline, of_baseline)):
        if rows.empty:
            budgets = " or ".join(_budget_text(budget) for budget in _budgets(scores))
            raise UserError(
                f"There is no {metric} of {name} under {shift} {level:g} at {budgets}: "
                f"train {name} and evaluate it."
            )
    _check_comparable(of_method, of_baseline)
    possible_keys = ("seed", "subject", "case", "image", "region")
    keys = [key for key in possible_keys if key in scores]
    values = {
        "method": of_method.set_index(keys)["value"],
        "baseline": of_baseline.set_index(keys)["value"],
    }
    both = pd.concat(values, axis=1).reset_index()
    has_both = both["seed"].isin(of_method["seed"]) & both["seed"].isin(of_baseline["seed"])
    return both[has_both]


def gains(both: pd.DataFrame) -> pd.Series:
    """By how many points the method of `pairs` is ahead, for each subject and seed."""
    difference = 100 * (both["method"] - both["baseline"])
    # Rounded, so that two equal means do not differ by the order in which they were added up.
    rows = both.assign(value=difference.round(9))
    return mean_of_regions(rows.dropna(subset="value"), ["subject", "seed"])


def compare(
    scores: pd.DataFrame,
    method: str,
    baseline: str = DEFAULT_BASELINE,
    metric: str = "iou",
    shift: str = "clean",
    level: float = 0.0,
) -> Comparison:
    """Compare two methods at one number of labelled subjects, paired by seed and subject.

    If a case and region is undefined for one method, it is left out for both.
    """
    if metric not in POINTS:
        raise UserError(f"A verdict cannot be about {metric}: choose one of {', '.join(POINTS)}.")
    both = pairs(scores, method, baseline, metric, shift, level)
    differences = gains(both)
    if differences.empty:
        raise UserError(
            f"{method} and {baseline} have no {metric} that is defined for both: "
            "evaluate them on other test cases."
        )
    is_incomplete = both[["method", "baseline"]].isna().any(axis=1)
    mean_difference = interval(differences)
    return Comparison(
        method=method,
        baseline=baseline,
        labelled=_budgets(scores[scores["method"] == method])[0],
        budget=str(scores["budget"].iloc[0]) if "budget" in scores else None,
        shift=shift,
        level=level,
        metric=metric,
        effect=mean_difference.mean,
        low=mean_difference.low,
        high=mean_difference.high,
        p=mean_difference.p,
        subjects=differences.index.get_level_values("subject").nunique(),
        seeds=differences.index.get_level_values("seed").nunique(),
        left_out=int(is_incomplete.sum()),
        wilcoxon=wilcoxon(differences),
        bootstrap=bootstrap(differences),
    )


def verdict(
    comparison: Comparison,
    corrected_p: float | None = None,
    family_size: int = 1,
    labels_only: Collection[str] = (DEFAULT_BASELINE,),
    unknown_use: Collection[str] = (),
) -> Verdict:
    """The verdict on one comparison.

    A method helps or hurts only if the 95 % interval excludes 0. If the comparison is one of
    several (`family_size`), `corrected_p` decides instead.

    The sentence is about the unlabelled scans if the baseline is one of the methods that learn from
    `labels_only` and the method is known to use unlabelled scans. Otherwise it is about the two
    methods.

    One seed is always inconclusive, however narrow the interval over subjects: on real scans, most
    pairs of single trainings differ by more than the variation among subjects explains, and the
    sign of the difference changes from seed to seed. One subject is inconclusive too.
    """
    p = comparison.p if corrected_p is None else corrected_p
    is_repeated = comparison.seeds > 1 and comparison.subjects > 1
    kind = Kind.INCONCLUSIVE
    if p < SIGNIFICANT and is_repeated:
        kind = Kind.HELPS if comparison.effect > 0 else Kind.HURTS
    uses_unlabelled = comparison.method not in {*labels_only, *unknown_use}
    is_about_scans = comparison.baseline in labels_only and uses_unlabelled
    opening = OPENING_ON_SCANS[kind] if is_about_scans else OPENING_ON_METHODS[kind]
    evidence = "; ".join(_evidence(comparison, p, family_size))
    sentence = f"{opening}{_claim(comparison)} ({evidence})."
    return Verdict(kind, sentence, comparison, p)


def corrected_verdicts(
    comparisons: Sequence[Comparison],
    labels_only: Collection[str] = (DEFAULT_BASELINE,),
    unknown_use: Collection[str] = (),
) -> list[Verdict]:
    """A verdict on each comparison, with p-values corrected for their number (Holm)."""
    corrected = holm([comparison.p for comparison in comparisons])
    family_size = len(comparisons)
    answers = []
    for comparison, p in zip(comparisons, corrected, strict=True):
        answer = verdict(comparison, float(p), family_size, labels_only, unknown_use)
        answers.append(answer)
    return answers


def verdicts(
    scores: pd.DataFrame,
    baseline: str = DEFAULT_BASELINE,
    metric: str = "iou",
    shift: str = "clean",
    level: float = 0.0,
    labels_only: Collection[str] = (DEFAULT_BASELINE,),
    unknown_use: Collection[str] = (),
) -> list[Verdict]:
    """A verdict on every method at every budget, against the baseline at the same budget.

    Without a column `budget`, the number of labelled subjects is the budget.
    """
    budget_column = "budget" if "budget" in scores else "labelled"
    comparisons = []
    for _, rows in scores.groupby(budget_column, sort=False, dropna=False):
        for method in rows["method"].unique():
            if method != baseline:
                comparison = compare(rows, str(method), baseline, metric, shift, level)
                comparisons.append(comparison)
    if not comparisons:
        raise UserError(
            f"There is nothing but {baseline} among the scores: train and evaluate another method."
        )
    return corrected_verdicts(comparisons, labels_only, unknown_use)


def _check_comparable(of_method: pd.DataFrame, of_baseline: pd.DataFrame) -> None:
    """Refuse two methods whose scores differ in more than the method."""
    names = f"{of_method['method'].iloc[0]} and {of_baseline['method'].iloc[0]}"
    _check_same_budget(of_method, of_baseline, names)
    _check_one_run_per_seed(of_method)
    _check_one_run_per_seed(of_baseline)
    budget = _budget_text(_budgets(of_method)[0])
    for keys in (["seed"], ["seed", "subject"]):
        if of_method[keys].merge(of_baseline[keys]).empty:
            raise UserError(
                f"{names} have no {keys[-1]} in common at {budget}: "
                f"train and evaluate both with the same {keys[-1]}s."
            )


def _check_same_budget(of_method: pd.DataFrame, of_baseline: pd.DataFrame, names: str) -> None:
    method_budgets = _budgets(of_method)
    baseline_budgets = _budgets(of_baseline)
    if len({*method_budgets, *baseline_budgets}) > 1:
        of_first = " or ".join(_budget_text(budget) for budget in method_budgets)
        of_second = " or ".join(_budget_text(budget) for budget in baseline_budgets)
        raise UserError(
            f"{names} must have the same number of labelled subjects, but have {of_first} and "
            f"{of_second}: compare runs with the same number."
        )


def _check_one_run_per_seed(rows: pd.DataFrame) -> None:
    runs = rows[["seed", "run"]].drop_duplicates()
    has_second_run = runs["seed"].duplicated().any()
    has_second_score = rows.drop(columns="value").duplicated().any()
    if has_second_run or has_second_score:
        names = ", ".join(str(run) for run in runs["run"])
        raise UserError(
            f"The scores have {rows['method'].iloc[0]} twice with one seed (runs {names}): "
            "compare one run per seed."
        )


def _claim(comparison: Comparison) -> str:
    """What was measured: segpl is 4.2 IoU points better than supervised training at ..."""
    difference = f"{_points_text(abs(comparison.effect))} {POINTS[comparison.metric]} points"
    direction = "worse" if comparison.effect < 0 else "better"
    budget = _budget_text(comparison.labelled)
    # A study's name for the budget is added only if it says more than the number.
    addition = re.sub(r"^(\d+|all)( labelled)?(, |$)", "", comparison.budget or "")
    if addition:
        budget += f", {addition}"
    claim = (
        f"{comparison.method} is {difference} {direction} than {comparison.baseline} training "
        f"at {budget}"
    )
    if comparison.shift == "clean":
        return claim
    return f"{claim} under {comparison.shift} {comparison.level:g}"


def _evidence(comparison: Comparison, p: float, family_size: int) -> list[str]:
    """What a verdict is based on, and its limits."""
    evidence = []
    if np.isnan(comparison.p):
        evidence.append("no interval")
    else:
        low = _points_text(comparison.low)
        high = _points_text(comparison.high)
        evidence.append(f"95 % interval {low} to {high}")
    subjects = plural(comparison.subjects, "test subject")
    evidence.append(f"{subjects}, {plural(comparison.seeds, 'seed')}")
    if family_size > 1 and not np.isnan(p):
        correction = f"p = {p:.2g} after Holm's correction for {family_size} comparisons"
        is_lost = comparison.p < SIGNIFICANT <= p
        evidence.append(f"{correction}, so it is not significant" if is_lost else correction)
    if comparison.left_out:
        left_out = plural(comparison.left_out, "pair")
        evidence.append(f"{left_out} of scores left out, undefined or missing")
    if comparison.seeds == 1:
        evidence.append(
            "one seed is not enough to separate the method's effect from chance, "
            "so train both with more seeds"
        )
    if comparison.subjects == 1:
        evidence.append("one test subject is not enough to draw conclusions about others")
    return evidence


def _points_text(value: float) -> str:
    """One decimal, or one significant digit if a small number would otherwise become 0.0."""
    if abs(value) >= 0.05 or value == 0:
        return f"{value:.1f}"
    return f"{value:.1g}"


def _budget_text(labelled: int | None) -> str:
    if labelled is None:
        return "all labelled subjects"
    return plural(labelled, "labelled subject")


def _budgets(scores: pd.DataFrame) -> list[int | None]:
    """The numbers of labelled subjects that occur, in ascending order; None if all are labelled."""
    numbers = sorted(scores["labelled"].unique())
    return [None if pd.isna(number) else int(number) for number in numbers]
