"""Which methods find most, and which test subjects they fail: decided once for the whole page.

The worst subject of some runs is the one with the lowest IoU, regions averaged, in any of them. The
sentence at the top, the table of scores and the order of the pictures all follow this.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from segpl.reporting.material import Material
from segpl.reporting.page.quality import subjects
from segpl.reporting.statistics import mean_of_regions, per_subject
from segpl.reporting.words import listed, plural, verb

Candidate = tuple[str, str]
"""A method at a budget."""


@dataclass(frozen=True)
class Best:
    """The methods with the highest mean IoU; several if their means look the same at the precision that is shown."""

    leaders: Sequence[Candidate]
    mean: str
    """Their mean IoU in per cent, as it is shown."""
    rivals: int
    """How many others there are."""
    subjects: int
    worst_subject: str
    worst_iou: float
    """In per cent."""
    calibration_error: float | None
    """Mean expected calibration error of the leaders' runs, in per cent."""


@dataclass(frozen=True)
class Standing:
    """What the page says about best and worst."""

    best: Best | None
    """None where no test subject has a defined IoU."""
    worst_iou: Mapping[Candidate, float]
    """The IoU of the worst subject of each method at each budget, in per cent."""
    cases: Sequence[str]
    """All test cases, those of the leaders' worst subject first; without a defined IoU of the leaders, last."""


def find_standing(material: Material) -> Standing:
    """Best and worst of these runs."""
    values = subjects(material)
    rows = material.clean[material.clean["metric"] == "iou"]
    if values.empty:
        return Standing(None, {}, list(rows["case"].unique()))
    best = _best(material, values)
    worst = {candidate: float(part["value"].min()) for candidate, part in _by_candidate(values)}
    return Standing(best, worst, _cases_worst_first(rows, values, best.leaders))


def _best(material: Material, values: pd.DataFrame) -> Best:
    means = {candidate: f"{part['value'].mean():.1f}" for candidate, part in _by_candidate(values)}
    highest = max(means.values(), key=float)
    leaders = [candidate for candidate, mean in means.items() if mean == highest]
    own = _of(values, leaders)
    worst = own.sort_values(["value", "subject"]).iloc[0]
    return Best(
        leaders=leaders,
        mean=highest,
        rivals=len(means) - len(leaders),
        subjects=own["subject"].nunique(),
        worst_subject=str(worst["subject"]),
        worst_iou=float(worst["value"]),
        calibration_error=_calibration_error(material, set(own["run"])),
    )


def _cases_worst_first(
    rows: pd.DataFrame, values: pd.DataFrame, leaders: Collection[Candidate]
) -> list[str]:
    """Ordered by the lowest IoU of a case's subject in the leaders' runs, then by that of the case itself."""
    by_subject = _of(values, leaders).groupby("subject")["value"].min()
    by_case = mean_of_regions(_of(rows, leaders), ["run", "case"]).groupby("case").min()
    cases = rows.drop_duplicates("case")[["case", "subject"]]
    cases = cases.assign(
        subject_iou=cases["subject"].map(by_subject),
        case_iou=cases["case"].map(by_case),
    )
    ordered = cases.sort_values(["subject_iou", "subject", "case_iou"], na_position="last")
    return list(ordered["case"])


def standing_words(best: Best | None, names_budgets: bool) -> list[str]:
    """Which method finds most, its worst subject, and how far its probabilities are off."""
    if best is None:
        return ["No test subject has a defined IoU: truth and masks are all empty."]
    names = []
    for method, budget in best.leaders:
        names.append(f"{method} ({budget})" if names_budgets else method)
    count = len(names)
    if count > 1:
        claim = f"{listed(names)} are tied: an IoU of {best.mean} % each"
    elif best.rivals:
        claim = f"{names[0]} finds most: an IoU of {best.mean} %"
    else:
        claim = f"{names[0]} has an IoU of {best.mean} %"
    over = plural(best.subjects, "test subject")
    worst = f"{best.worst_subject} with {best.worst_iou:.1f} %"
    sentences = [f"{claim} on average over {over}; {verb(count, 'its', 'their')} worst is {worst}."]
    if best.calibration_error is not None:
        error = f"{best.calibration_error:.1f} points on average (ECE)"
        sentences.append(f"{verb(count, 'Its', 'Their')} probabilities are off by {error}.")
    return sentences


def _by_candidate(values: pd.DataFrame) -> list[tuple[Candidate, pd.DataFrame]]:
    """The rows of each method and budget."""
    parts = []
    for (method, budget), part in values.groupby(["method", "budget"], sort=False):
        parts.append(((str(method), str(budget)), part))
    return parts


def _of(rows: pd.DataFrame, candidates: Collection[Candidate]) -> pd.DataFrame:
    """The rows of these methods and budgets."""
    pairs = zip(rows["method"], rows["budget"], strict=True)
    return rows[[pair in candidates for pair in pairs]]


def _calibration_error(material: Material, runs: set[str]) -> float | None:
    errors = per_subject(material.clean[material.clean["run"].isin(runs)], "ece")["value"]
    return 100 * float(errors.mean()) if errors.notna().any() else None
