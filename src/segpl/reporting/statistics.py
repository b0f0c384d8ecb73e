"""What scores say and how surely: by subject, by size of the foreground, and one method against another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy import optimize, special, stats

SIZES = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Edges between small and large foregrounds, in per cent of an image (appendix of the paper)."""
LEVEL = 0.95
RESAMPLES = 10_000
SMALLEST = 1e-12
"""A p-value below this is given as this: further out no distribution can be trusted."""


@dataclass(frozen=True)
class Interval:
    """A mean and where the true one lies, with the p-value of none: p < 0.05 exactly if the 95 % interval misses 0."""

    mean: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class BlandAltman:
    """How two sets of paired values agree: what the plot shows. `left_out` pairs have an undefined value."""

    means: Float[np.ndarray, " pairs"]
    differences: Float[np.ndarray, " pairs"]
    bias: float
    bias_interval: tuple[float, float]
    limits: tuple[float, float]
    left_out: int


def per_subject(scores: pd.DataFrame, metric: str = "iou") -> pd.DataFrame:
    """One `value` per subject of a run and shift: the mean over its cases in each region, then over regions.

    Undefined scores (truth and mask both empty) are left out and counted in `undefined`; a subject that has no other
    keeps its row, with an undefined value.
    """
    keys = ["run", "method", "seed", "labelled", "shift", "level", "subject"]
    part = scores[scores["metric"] == metric]
    undefined = (
        part["value"].isna().groupby([part[key] for key in keys], sort=False, dropna=False).sum()
    )
    return pd.DataFrame(
        {"value": mean_of_regions(part, keys), "undefined": undefined}
    ).reset_index()


def mean_of_regions(scores: pd.DataFrame, keys: Sequence[str]) -> pd.Series:
    """The mean value for each of `keys`: over what a region has, then over regions, each time over what is defined."""
    regions = scores.groupby([*keys, "region"], sort=False, dropna=False)["value"].mean()
    return regions.groupby(list(keys), sort=False, dropna=False).mean()


def by_size(
    images: pd.DataFrame,
    metric: str = "iou",
    by: Sequence[str] = ("method", "labelled", "shift", "level"),
) -> pd.DataFrame:
    """How `metric` depends on the foreground's share of an image: a row for each of `by` and each `size` that occurs.

    `mean` and `spread` (standard deviation) are over images, each the mean of its seeds; every region of an image
    counts as one. Images without foreground in truth are left out. An edge belongs to the size above it.
    """
    between = [f"{low:g}-{high:g}" for low, high in pairwise(SIZES)]
    names = [f"below {SIZES[0]:g}", *between, f"above {SIZES[-1]:g}"]
    part = images[(images["metric"] == metric) & (images["foreground"] > 0)].dropna(subset="value")
    size = pd.cut(100 * part["foreground"], [0, *SIZES, np.inf], right=False, labels=names)
    one = [*by, "size", *(key for key in ("subject", "case", "image", "region") if key not in by)]
    seeds_averaged = (
        part.assign(size=size)
        .groupby(one, observed=True, dropna=False)["value"]
        .mean()
        .reset_index()
    )
    groups = seeds_averaged.groupby([*by, "size"], observed=True, dropna=False)
    columns = {"mean": ("value", "mean"), "spread": ("value", "std"), "images": ("value", "size")}
    return groups.agg(**columns, subjects=("subject", "nunique")).reset_index()


def bland_altman(a: pd.Series, b: pd.Series) -> BlandAltman:
    """Agreement of two methods' values of the same images or subjects, paired by their index: a - b against the mean.

    The limits hold 95 % of the differences (bias ± 1.96 deviations). The interval of the bias is Student's: take values
    of subjects for it, since images of one subject are alike and would make it too narrow.
    """
    both = pd.concat({"a": a, "b": b}, axis=1)
    pairs = both.dropna()
    differences = (pairs["a"] - pairs["b"]).to_numpy(float)
    bias, deviation = (
        (differences.mean(), differences.std(ddof=1)) if len(pairs) > 1 else (np.nan, np.nan)
    )
    half = stats.t.isf((1 - LEVEL) / 2, len(pairs) - 1) * deviation / np.sqrt(max(1, len(pairs)))
    return BlandAltman(
        means=pairs.mean(axis=1).to_numpy(float),
        differences=differences,
        bias=float(bias),
        bias_interval=(float(bias - half), float(bias + half)),
        limits=(float(bias - 1.96 * deviation), float(bias + 1.96 * deviation)),
        left_out=len(both) - len(pairs),
    )


def mann_whitney(images_a: pd.Series, images_b: pd.Series) -> float:
    """The p-value of the paper's test, over all images of two methods as though each were drawn by itself.

    Slices of one scan are alike, so this calls far too many differences real; it is here to compare with the paper.
    """
    a, b = images_a.dropna(), images_b.dropna()
    return 1.0 if a.empty or b.empty else float(stats.mannwhitneyu(a, b).pvalue)


def wilcoxon(differences: pd.Series) -> float:
    """The p-value of the signed-rank test over subjects. `differences` has the index subject, seed; seeds are averaged.

    It takes the trainings as they are: other seeds could have given another answer. `interval` counts that too.
    """
    subjects = _subject_means(differences)
    return float(stats.wilcoxon(subjects).pvalue) if subjects.any() else 1.0


def bootstrap(differences: pd.Series) -> tuple[float, float]:
    """The 95 % interval of the mean difference when subjects are drawn anew, seeds averaged; the same on every call."""
    subjects = np.sort(_subject_means(differences))  # the order of the rows must not matter
    if len(subjects) < 2:
        return np.nan, np.nan
    drawn = np.random.default_rng(0).integers(len(subjects), size=(RESAMPLES, len(subjects)))
    low, high = np.quantile(subjects[drawn].mean(axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def interval(differences: pd.Series, level: float = LEVEL) -> Interval:
    """The mean over subjects (index subject, seed; seeds averaged) and its interval for new subjects and new trainings.

    Subjects and seeds are both drawn from many, so the squared error is that of the subjects' means plus that of the
    seeds' means, less the scatter that neither explains, for both contain it. Student's quantiles for the two are
    averaged with the two errors as weights (Cochran and Cox), because degrees of freedom that are estimated from a few
    seeds are too hopeful. With one seed, or one subject, the other's error stands alone; with one of both there is no
    interval. Seeds may have different subjects.
    """
    values, *numbers = _numbered(differences)
    subjects, seeds = (_means(values, each) for each in numbers)
    mean = float(subjects.mean()) if len(subjects) else np.nan
    means = [part for part in (subjects, seeds) if len(part) > 1]
    if not means:
        return Interval(mean, np.nan, np.nan, np.nan)
    squared = np.array([part.var(ddof=1) / len(part) for part in means])
    error = float(np.sqrt(max(*squared, squared.sum() - _counted_twice(values, *numbers))))
    if not error:
        return Interval(mean, mean, mean, 1.0 if mean == 0 else SMALLEST)
    freedom, weights = [len(part) - 1 for part in means], squared / squared.sum()
    return _student(mean, error, lambda p: float(-special.stdtrit(freedom, p / 2) @ weights), level)


def holm(p_values: Sequence[float]) -> Float[np.ndarray, " tests"]:
    """p-values corrected for their number, so that a false alarm among all is as rare as in one test (Holm 1979).

    An undefined one is no test: it stays undefined and does not count.
    """
    p = np.asarray(p_values, dtype=float)
    corrected = np.full(len(p), np.nan)
    order = np.argsort(p)[: np.isfinite(p).sum()]  # undefined ones come last
    corrected[order] = np.maximum.accumulate(np.minimum(1, p[order] * np.arange(len(order), 0, -1)))
    return corrected


def _numbered(
    differences: pd.Series,
) -> tuple[Float[np.ndarray, " pairs"], Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """The values that are defined, with the number of the subject and of the seed of each."""
    defined = differences.dropna()
    subjects, seeds = (
        pd.factorize(defined.index.get_level_values(key))[0] for key in ("subject", "seed")
    )
    return defined.to_numpy(float), subjects, seeds


def _means(
    values: Float[np.ndarray, " pairs"], numbers: Int[np.ndarray, " pairs"]
) -> Float[np.ndarray, " groups"]:
    return np.bincount(numbers, values) / np.bincount(numbers)


def _subject_means(differences: pd.Series) -> Float[np.ndarray, " subjects"]:
    values, subjects, _ = _numbered(differences)
    return _means(values, subjects)


def _counted_twice(
    values: Float[np.ndarray, " pairs"],
    subjects: Int[np.ndarray, " pairs"],
    seeds: Int[np.ndarray, " pairs"],
) -> float:
    """The squared error of the mean from scatter that neither subject nor seed explains; 0 where it cannot be told."""
    known = np.hstack([np.eye(each.max() + 1)[each] for each in (subjects, seeds)])
    effects, _, rank, _ = np.linalg.lstsq(known, values)
    spare = len(values) - int(rank)
    return float(((values - known @ effects) ** 2).sum() / spare / len(values)) if spare else 0.0


def _student(
    mean: float, error: float, quantile: Callable[[float], float], level: float
) -> Interval:
    """The interval and the p-value of a mean whose error exceeds `quantile(p)` standard errors with probability p."""
    half, reached = error * quantile(1 - level), abs(mean) / error
    p = SMALLEST
    if reached < quantile(SMALLEST):
        p = np.exp(
            optimize.brentq(lambda log_p: quantile(np.exp(log_p)) - reached, np.log(SMALLEST), 0)
        )
    return Interval(mean, mean - half, mean + half, float(p))
