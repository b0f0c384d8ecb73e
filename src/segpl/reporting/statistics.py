"""Statistics of scores: by subject, by size of the foreground, and of paired differences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy import optimize, special, stats

SIZES = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Limits between sizes of the foreground, in per cent of an image (appendix of the paper)."""
LEVEL = 0.95
"""Confidence level of every interval."""
TAIL = (1 - LEVEL) / 2
"""Probability below a two-sided interval, and above it."""
LIMITS_OF_AGREEMENT = 1.96
"""In standard deviations; they hold 95 % of normally distributed differences."""
RESAMPLES = 10_000
"""Draws of the bootstrap."""
SMALLEST = 1e-12
"""The smallest p-value that is reported: further out, no distribution can be trusted."""

Values = Float[np.ndarray, " pairs"]
"""One value for each pair of a subject and a seed."""
Numbers = Int[np.ndarray, " pairs"]
"""The number of the subject, or of the seed, of each value; they count from 0."""


@dataclass(frozen=True)
class Interval:
    """A mean with its confidence interval, and the p-value of the mean being 0.

    p < 0.05 exactly if the 95 % interval excludes 0.
    """

    mean: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class BlandAltman:
    """The agreement of paired values a and b, as a Bland-Altman plot shows it."""

    means: Float[np.ndarray, " pairs"]
    differences: Float[np.ndarray, " pairs"]
    """a - b."""
    bias: float
    bias_interval: tuple[float, float]
    limits: tuple[float, float]
    left_out: int
    """Number of pairs with an undefined or missing value."""


def per_subject(scores: pd.DataFrame, metric: str = "iou") -> pd.DataFrame:
    """One `value` per subject, run and shift: the mean over cases per region, then over regions.

    Undefined scores (truth and mask both empty) are left out and counted in `undefined`. A subject
    with undefined scores only keeps its row, with an undefined value.
    """
    keys = ["run", "method", "seed", "labelled", "shift", "level", "subject"]
    rows = scores[scores["metric"] == metric]
    key_columns = [rows[key] for key in keys]
    is_undefined = rows["value"].isna()
    undefined = is_undefined.groupby(key_columns, sort=False, dropna=False).sum()
    columns = {"value": mean_of_regions(rows, keys), "undefined": undefined}
    return pd.DataFrame(columns).reset_index()


def mean_of_regions(scores: pd.DataFrame, keys: Sequence[str]) -> pd.Series:
    """The mean value for each combination of `keys`: within each region, then over regions.

    Undefined values are left out of both means.
    """
    by_region = scores.groupby([*keys, "region"], sort=False, dropna=False)
    region_means = by_region["value"].mean()
    by_key = region_means.groupby(list(keys), sort=False, dropna=False)
    return by_key.mean()


def by_size(
    images: pd.DataFrame,
    metric: str = "iou",
    by: Sequence[str] = ("method", "labelled", "shift", "level"),
) -> pd.DataFrame:
    """How `metric` depends on the foreground's share of an image.

    There is a row for each combination of `by` and each `size` that occurs. `mean` and `spread`
    (standard deviation) are over images; every region of an image counts as one image, and its
    seeds are averaged first. Images without foreground in the truth are left out. A limit between
    two sizes belongs to the larger one.
    """
    is_wanted = (images["metric"] == metric) & (images["foreground"] > 0)
    rows = images[is_wanted].dropna(subset="value")
    rows = rows.assign(size=_sizes(rows["foreground"]))
    size_keys = [*by, "size"]
    image_keys = [key for key in ("subject", "case", "image", "region") if key not in by]
    by_image = rows.groupby(size_keys + image_keys, observed=True, dropna=False)
    seeds_averaged = by_image["value"].mean().reset_index()
    groups = seeds_averaged.groupby(size_keys, observed=True, dropna=False)
    table = groups.agg(
        mean=("value", "mean"),
        spread=("value", "std"),
        images=("value", "size"),
        subjects=("subject", "nunique"),
    )
    return table.reset_index()


def _sizes(foreground: pd.Series) -> pd.Series:
    """The name of the size of each image, from the foreground's share of it (0 to 1)."""
    names = [f"below {SIZES[0]:g}"]
    for low, high in pairwise(SIZES):
        names.append(f"{low:g}-{high:g}")
    names.append(f"above {SIZES[-1]:g}")
    limits = [0, *SIZES, np.inf]
    per_cent = 100 * foreground
    return pd.cut(per_cent, limits, right=False, labels=names)


def bland_altman(a: pd.Series, b: pd.Series) -> BlandAltman:
    """Agreement of two methods on the same images or subjects, paired by index.

    The limits of agreement are bias ± 1.96 standard deviations. The interval of the bias is
    Student's. It is too narrow for images, because images of one subject resemble one another: use
    values of subjects.
    """
    both = pd.concat({"a": a, "b": b}, axis=1)
    pairs = both.dropna()
    count = len(pairs)
    differences = (pairs["a"] - pairs["b"]).to_numpy(float)
    bias = np.nan
    deviation = np.nan
    if count > 1:
        bias = differences.mean()
        deviation = differences.std(ddof=1)
    quantile = stats.t.isf(TAIL, count - 1)
    half_width = quantile * deviation / np.sqrt(max(1, count))
    agreement = LIMITS_OF_AGREEMENT * deviation
    return BlandAltman(
        means=pairs.mean(axis=1).to_numpy(float),
        differences=differences,
        bias=float(bias),
        bias_interval=(float(bias - half_width), float(bias + half_width)),
        limits=(float(bias - agreement), float(bias + agreement)),
        left_out=len(both) - count,
    )


def mann_whitney(images_a: pd.Series, images_b: pd.Series) -> float:
    """The p-value of the paper's test, over all images of two methods as if they were independent.

    Slices of one scan resemble one another, so this test finds far too many differences. It is here
    only for comparison with the paper.
    """
    a = images_a.dropna()
    b = images_b.dropna()
    if a.empty or b.empty:
        return 1.0
    return float(stats.mannwhitneyu(a, b).pvalue)


def wilcoxon(differences: pd.Series) -> float:
    """The p-value of the signed-rank test over subjects, seeds averaged.

    `differences` has the index subject, seed. The test takes the trainings as given, although other
    seeds could give another result; `interval` takes the seeds into account.
    """
    subjects = _subject_means(differences)
    if not subjects.any():
        return 1.0
    return float(stats.wilcoxon(subjects).pvalue)


def bootstrap(differences: pd.Series) -> tuple[float, float]:
    """The 95 % interval of the mean difference when subjects are resampled, seeds averaged.

    `differences` has the index subject, seed. Every call draws the same samples.
    """
    subjects = np.sort(_subject_means(differences))  # the order of the rows must not matter
    if len(subjects) < 2:
        return np.nan, np.nan
    count = len(subjects)
    generator = np.random.default_rng(0)
    drawn = generator.integers(count, size=(RESAMPLES, count))
    means = subjects[drawn].mean(axis=1)
    low, high = np.quantile(means, [TAIL, (1 + LEVEL) / 2])
    return float(low), float(high)


def interval(differences: pd.Series, level: float = LEVEL) -> Interval:
    """The mean over subjects, seeds averaged, with its interval for new subjects and new trainings.

    `differences` has the index subject, seed; seeds may have different subjects.

    Subjects and seeds are both samples. The squared standard error is that of the subjects' means
    plus that of the seeds' means, minus the residual variation that both contain. Student's
    quantiles for the two are averaged with the two squared errors as weights (Cochran and Cox),
    because degrees of freedom estimated from a few seeds are too optimistic. With one seed the
    error is that of the subjects, and with one subject that of the seeds. With one of both there is
    no interval.
    """
    values, subject_numbers, seed_numbers = _numbered(differences)
    subject_means = _group_means(values, subject_numbers)
    seed_means = _group_means(values, seed_numbers)
    mean = float(subject_means.mean()) if len(subject_means) else np.nan
    samples = [means for means in (subject_means, seed_means) if len(means) > 1]
    if not samples:
        return Interval(mean, np.nan, np.nan, np.nan)
    squared_errors = np.array([_squared_error(means) for means in samples])
    residual = _squared_residual_error(values, subject_numbers, seed_numbers)
    squared_error = max(*squared_errors, squared_errors.sum() - residual)
    error = float(np.sqrt(squared_error))
    if not error:
        p = 1.0 if mean == 0 else SMALLEST
        return Interval(mean, mean, mean, p)
    freedom = [len(means) - 1 for means in samples]
    weights = squared_errors / squared_errors.sum()

    def quantile(p: float) -> float:
        """How many standard errors the mean is off with probability p."""
        quantiles = -special.stdtrit(freedom, p / 2)
        return float(quantiles @ weights)

    return _interval_from_quantiles(mean, error, quantile, level)


def holm(p_values: Sequence[float]) -> Float[np.ndarray, " tests"]:
    """p-values corrected for their number (Holm 1979).

    A false positive among all tests is then as rare as in a single test. Undefined p-values stay
    undefined and do not count as tests.
    """
    p = np.asarray(p_values, dtype=float)
    defined_count = np.isfinite(p).sum()
    order = np.argsort(p)[:defined_count]  # undefined values are sorted to the end
    factors = np.arange(len(order), 0, -1)
    multiplied = np.minimum(1, p[order] * factors)
    corrected = np.full(len(p), np.nan)
    corrected[order] = np.maximum.accumulate(multiplied)
    return corrected


def _numbered(differences: pd.Series) -> tuple[Values, Numbers, Numbers]:
    """The defined values, with the number of the subject and of the seed of each, from 0."""
    defined = differences.dropna()
    subjects = defined.index.get_level_values("subject")
    seeds = defined.index.get_level_values("seed")
    subject_numbers, _ = pd.factorize(subjects)
    seed_numbers, _ = pd.factorize(seeds)
    return defined.to_numpy(float), subject_numbers, seed_numbers


def _group_means(values: Values, numbers: Numbers) -> Float[np.ndarray, " groups"]:
    """The mean of the values with number 0, with number 1, and so on."""
    sums = np.bincount(numbers, values)
    counts = np.bincount(numbers)
    return sums / counts


def _squared_error(means: Float[np.ndarray, " groups"]) -> float:
    """The squared standard error of the mean of `means`."""
    return means.var(ddof=1) / len(means)


def _subject_means(differences: pd.Series) -> Float[np.ndarray, " subjects"]:
    values, subject_numbers, _ = _numbered(differences)
    return _group_means(values, subject_numbers)


def _squared_residual_error(
    values: Values, subject_numbers: Numbers, seed_numbers: Numbers
) -> float:
    """The part of the mean's squared error that neither subjects nor seeds explain.

    It is estimated by fitting an effect for each subject and each seed. It is 0 if no degree of
    freedom is left to estimate it.
    """
    design = np.hstack([_indicators(subject_numbers), _indicators(seed_numbers)])
    effects, _, rank, _ = np.linalg.lstsq(design, values)
    freedom = len(values) - int(rank)
    if not freedom:
        return 0.0
    residuals = values - design @ effects
    variance = (residuals**2).sum() / freedom
    return float(variance / len(values))


def _indicators(numbers: Numbers) -> Float[np.ndarray, "pairs groups"]:
    """A row for each value, with a 1 in the column of its number and 0 elsewhere."""
    group_count = numbers.max() + 1
    return np.eye(group_count)[numbers]


def _interval_from_quantiles(
    mean: float, error: float, quantile: Callable[[float], float], level: float
) -> Interval:
    """The interval and p-value of a mean with standard error `error`.

    The mean is off by more than `quantile(p)` standard errors with probability p.
    """
    half_width = error * quantile(1 - level)
    distance = abs(mean) / error

    def excess(log_p: float) -> float:
        """Zero at the p-value: its quantile is the distance of the mean from 0."""
        return quantile(np.exp(log_p)) - distance

    p = SMALLEST
    if distance < quantile(SMALLEST):
        log_p = optimize.brentq(excess, np.log(SMALLEST), 0)
        p = np.exp(log_p)
    return Interval(mean, mean - half_width, mean + half_width, float(p))
