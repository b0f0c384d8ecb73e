"""Does it help? Two methods compared on the same subjects and seeds, and the answer in one sentence."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pandas as pd

from segpl.foundation.errors import UserError
from segpl.reporting.statistics import LEVEL, bootstrap, holm, interval, mean_of_regions, wilcoxon
from segpl.reporting.words import plural

POINTS = {"iou": "IoU", "mean_iou": "mean IoU", "dice": "Dice", "surface_dice": "surface Dice"}
"""What a verdict can be about: shares of 1 of which more is better."""
DEFAULT_BASELINE = "supervised"
"""What others are compared with unless another is asked for. It learns from labels alone."""


@dataclass(frozen=True)
class Comparison:
    """A method against a baseline: the mean difference in points (hundredths) over subjects and how sure it is.

    `low` and `high` bound the 95 % interval over subjects and seeds and `p` goes with it; where there is one subject
    and one seed they are undefined. `bootstrap` and `wilcoxon` know of the subjects alone.
    """

    method: str
    baseline: str
    labelled: int | None
    """Labelled subjects of both; None for all there are."""
    budget: str | None
    """What a study calls that, where the scores say so."""
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
    """Pairs of scores (same seed, case and region) of which one or both are undefined or missing."""
    wilcoxon: float
    bootstrap: tuple[float, float]


class Kind(Enum):
    """The three answers."""

    HELPS = "helps"
    CANNOT_TELL = "cannot tell"
    HURTS = "hurts"


OF_METHODS = {
    Kind.HELPS: "",
    Kind.CANNOT_TELL: "It cannot be told from these data which is better: ",
    Kind.HURTS: "",
}
OF_SCANS = {
    Kind.HELPS: "The unlabelled scans help: ",
    Kind.CANNOT_TELL: "It cannot be told from these data whether the unlabelled scans help: ",
    Kind.HURTS: "The unlabelled scans hurt: ",
}


@dataclass(frozen=True)
class Verdict:
    """The answer, its sentence and what it rests on. `p` is corrected if there were several comparisons."""

    kind: Kind
    sentence: str
    comparison: Comparison
    p: float


def pairs(
    scores: pd.DataFrame,
    method: str,
    baseline: str,
    metric: str = "iou",
    shift: str = "clean",
    level: float = 0.0,
) -> pd.DataFrame:
    """The values of two methods side by side, in columns `method` and `baseline`; of scores or of images.

    A row for each seed that both have, subject, case, region (and image). Both must have the same number of labelled
    subjects, and one run per seed.
    """
    asked = (
        (scores["metric"] == metric)
        & (scores["shift"] == shift)
        & np.isclose(scores["level"], level)
    )
    one, other = (scores[asked & (scores["method"] == name)] for name in (method, baseline))
    for name, part in ((method, one), (baseline, other)):
        if part.empty:
            at = " or ".join(map(_budget, _budgets(scores)))
            raise UserError(
                f"There is no {metric} of {name} under {shift} {level:g} at {at}: train and evaluate it."
            )
    _check_twins(one, other)
    by = [key for key in ("seed", "subject", "case", "image", "region") if key in scores]
    values = {"method": one.set_index(by)["value"], "baseline": other.set_index(by)["value"]}
    both = pd.concat(values, axis=1).reset_index()
    return both[both["seed"].isin(one["seed"]) & both["seed"].isin(other["seed"])]


def gains(both: pd.DataFrame) -> pd.Series:
    """By how many points the method of such pairs is ahead, for each subject and seed."""
    # Rounded, so that two equal means do not differ by the order in which they were added up.
    each = both.assign(value=(100 * (both["method"] - both["baseline"])).round(9))
    return mean_of_regions(each.dropna(subset="value"), ["subject", "seed"])


def compare(
    scores: pd.DataFrame,
    method: str,
    baseline: str = DEFAULT_BASELINE,
    metric: str = "iou",
    shift: str = "clean",
    level: float = 0.0,
) -> Comparison:
    """Compare two methods that `scores` has at one number of labelled subjects, paired by seed and subject.

    A case and region in which either is undefined is left out for both, so that both are judged on the same.
    """
    if metric not in POINTS:
        raise UserError(f"A verdict cannot be about {metric}: choose one of {', '.join(POINTS)}.")
    both = pairs(scores, method, baseline, metric, shift, level)
    differences = gains(both)
    if differences.empty:
        raise UserError(
            f"{method} and {baseline} have no {metric} that is defined for both: test on other cases."
        )
    found = interval(differences)
    return Comparison(
        method=method,
        baseline=baseline,
        labelled=_budgets(scores[scores["method"] == method])[0],
        budget=str(scores["budget"].iloc[0]) if "budget" in scores else None,
        shift=shift,
        level=level,
        metric=metric,
        effect=found.mean,
        low=found.low,
        high=found.high,
        p=found.p,
        subjects=differences.index.get_level_values("subject").nunique(),
        seeds=differences.index.get_level_values("seed").nunique(),
        left_out=int(both[["method", "baseline"]].isna().any(axis=1).sum()),
        wilcoxon=wilcoxon(differences),
        bootstrap=bootstrap(differences),
    )


def verdict(
    comparison: Comparison,
    corrected: float | None = None,
    family: int = 1,
    labels_alone: Collection[str] = (DEFAULT_BASELINE,),
    of_unknown_use: Collection[str] = (),
) -> Verdict:
    """Helps or hurts only if the 95 % interval misses 0; among a `family` of comparisons, `corrected` p must agree.

    The sentence is about the unlabelled scans if the baseline is among the methods that learn from labels alone and
    the method is neither among these nor `of_unknown_use`; otherwise it is about the two methods.

    One seed tells nothing, however narrow the interval over subjects: on real scans most pairs of single trainings
    differ by more than chance among subjects, the same two methods now this way and now that. Nor does one subject.
    """
    p = comparison.p if corrected is None else corrected
    kind = Kind.CANNOT_TELL
    if p < 1 - LEVEL and min(comparison.seeds, comparison.subjects) > 1:
        kind = Kind.HELPS if comparison.effect > 0 else Kind.HURTS
    without_claim = {*labels_alone, *of_unknown_use}
    of_scans = comparison.baseline in labels_alone and comparison.method not in without_claim
    return Verdict(kind, _sentence(kind, comparison, p, family, of_scans), comparison, p)


def judged(
    comparisons: Sequence[Comparison],
    labels_alone: Collection[str] = (DEFAULT_BASELINE,),
    of_unknown_use: Collection[str] = (),
) -> list[Verdict]:
    """A verdict on each, their p-values corrected together (Holm).

    Where many are asked, one alone needs more than a 95 % interval.
    """
    corrected = holm([one.p for one in comparisons])
    found = []
    for comparison, p in zip(comparisons, corrected, strict=True):
        found.append(verdict(comparison, float(p), len(comparisons), labels_alone, of_unknown_use))
    return found


def verdicts(
    scores: pd.DataFrame,
    baseline: str = DEFAULT_BASELINE,
    metric: str = "iou",
    shift: str = "clean",
    level: float = 0.0,
    labels_alone: Collection[str] = (DEFAULT_BASELINE,),
    of_unknown_use: Collection[str] = (),
) -> list[Verdict]:
    """A verdict for every method and budget (or number of labelled subjects) against the baseline with the same."""
    compared = [
        compare(part, str(method), baseline, metric, shift, level)
        for _, part in scores.groupby(
            "budget" if "budget" in scores else "labelled", sort=False, dropna=False
        )
        for method in part["method"].unique()
        if method != baseline
    ]
    if not compared:
        raise UserError(
            f"There is nothing but {baseline} among the scores: train and evaluate another method."
        )
    return judged(compared, labels_alone, of_unknown_use)


def _check_twins(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Two methods are twins if only the method differs: as many labels, one run a seed, common seeds and subjects."""
    names = " and ".join(part["method"].iloc[0] for part in (one, other))
    budgets = {budget for part in (one, other) for budget in _budgets(part)}
    if len(budgets) > 1:
        found = " and ".join(" or ".join(map(_budget, _budgets(part))) for part in (one, other))
        raise UserError(
            f"{names} must have as many labels as each other, but have {found}: choose runs of one number."
        )
    for part in (one, other):
        runs = part[["seed", "run"]].drop_duplicates()
        if runs["seed"].duplicated().any() or part.drop(columns="value").duplicated().any():
            listed = f"{part['method'].iloc[0]} twice with one seed (runs {', '.join(map(str, runs['run']))})"
            raise UserError(f"The scores have {listed}: compare one run of each seed at a time.")
    for keys in (["seed"], ["seed", "subject"]):
        if one[keys].merge(other[keys]).empty:
            at = _budget(budgets.pop())
            raise UserError(
                f"{names} have no {keys[-1]} in common at {at}: train and evaluate both on the same."
            )


def _sentence(kind: Kind, comparison: Comparison, p: float, family: int, of_scans: bool) -> str:
    opening = (OF_SCANS if of_scans else OF_METHODS)[kind]
    amount = f"{_points(abs(comparison.effect))} {POINTS[comparison.metric]} points"
    than = f"{'worse' if comparison.effect < 0 else 'better'} than {comparison.baseline} training"
    under = "" if comparison.shift == "clean" else f" under {comparison.shift} {comparison.level:g}"
    # A study's name for a budget is worth a word where it says more than the number.
    more = re.sub(r"^(\d+|all)( labelled)?(, |$)", "", comparison.budget or "")
    at = f"{_budget(comparison.labelled)}{f', {more}' if more else ''}"
    claim = f"{comparison.method} is {amount} {than} at {at}{under}"
    return f"{opening}{claim} ({'; '.join(_grounds(comparison, p, family))})."


def _grounds(comparison: Comparison, p: float, family: int) -> Iterator[str]:
    """What a verdict rests on, and what it cannot say."""
    bounds = f"95 % interval {_points(comparison.low)} to {_points(comparison.high)}"
    yield "no interval" if np.isnan(comparison.p) else bounds
    yield f"{plural(comparison.subjects, 'test subject')}, {plural(comparison.seeds, 'seed')}"
    if family > 1 and not np.isnan(p):
        fails = ", so it does not hold" if comparison.p < 1 - LEVEL <= p else ""
        yield f"p = {p:.2g} after Holm's correction for {family} comparisons{fails}"
    if comparison.left_out:
        yield f"{plural(comparison.left_out, 'pair')} of scores left out, undefined or missing"
    if comparison.seeds == 1:
        yield "one seed says nothing of another training, so train both with others too"
    if comparison.subjects == 1:
        yield "one subject says nothing of another"


def _points(value: float) -> str:
    """One decimal, or as many as it takes not to call a small number 0."""
    return f"{value:.1f}" if abs(value) >= 0.05 or not value else f"{value:.1g}"


def _budget(labelled: int | None) -> str:
    return "all labelled subjects" if labelled is None else plural(labelled, "labelled subject")


def _budgets(scores: pd.DataFrame) -> list[int | None]:
    return [
        None if pd.isna(number) else int(number) for number in sorted(scores["labelled"].unique())
    ]
