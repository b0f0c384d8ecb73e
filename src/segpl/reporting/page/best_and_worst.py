"""The best methods and their worst test subjects, decided once for the whole page.

A method's worst subject is the one with the lowest IoU, averaged over regions, in any of its runs.
The text at the top, the table of scores and the order of the pictures all use this decision.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from segpl.reporting.grammar import listed, plural, verb
from segpl.reporting.material import Material
from segpl.reporting.page.accuracy import subject_scores
from segpl.reporting.statistics import mean_of_regions, per_subject

Candidate = tuple[str, str]
"""A method and a label budget."""


@dataclass(frozen=True)
class Best:
    """The candidates with the highest mean IoU: several if their means are printed alike."""

    leaders: Sequence[Candidate]
    mean_iou: str
    """In per cent, as it is printed."""
    other_candidates: int
    """The number of candidates with a lower mean IoU."""
    subjects: int
    """The number of test subjects."""
    worst_subject: str
    worst_iou: float
    """In per cent."""
    calibration_error: float | None
    """Mean expected calibration error of the leaders' runs in per cent; None if undefined."""


@dataclass(frozen=True)
class BestAndWorst:
    """What the page says about the best method and the worst subjects."""

    best: Best | None
    """None if no test subject has a defined IoU."""
    worst_iou: Mapping[Candidate, float]
    """The IoU of each candidate's worst subject, in per cent."""
    cases: Sequence[str]
    """All test cases, starting with the leaders' worst subject; undefined ones come last."""


def find_best_and_worst(material: Material) -> BestAndWorst:
    """Rank the methods, subjects and cases of these runs."""
    scores = subject_scores(material)
    case_rows = material.clean[material.clean["metric"] == "iou"]
    if scores.empty:
        return BestAndWorst(None, {}, list(case_rows["case"].unique()))
    best = _find_best(material, scores)
    worst_iou = {}
    for candidate, rows in _by_candidate(scores):
        worst_iou[candidate] = float(rows["value"].min())
    return BestAndWorst(best, worst_iou, _cases_worst_first(case_rows, scores, best.leaders))


def _find_best(material: Material, scores: pd.DataFrame) -> Best:
    means = {}
    for candidate, rows in _by_candidate(scores):
        means[candidate] = f"{rows['value'].mean():.1f}"
    highest = max(means.values(), key=float)
    leaders = [candidate for candidate, mean in means.items() if mean == highest]
    leader_scores = _rows_of(leaders, scores)
    worst = leader_scores.sort_values(["value", "subject"]).iloc[0]
    return Best(
        leaders=leaders,
        mean_iou=highest,
        other_candidates=len(means) - len(leaders),
        subjects=leader_scores["subject"].nunique(),
        worst_subject=str(worst["subject"]),
        worst_iou=float(worst["value"]),
        calibration_error=_calibration_error(material, set(leader_scores["run"])),
    )


def _cases_worst_first(
    case_rows: pd.DataFrame, scores: pd.DataFrame, leaders: Collection[Candidate]
) -> list[str]:
    """All cases by the leaders' lowest IoU of their subject, then by the lowest IoU of the case."""
    subject_iou = _rows_of(leaders, scores).groupby("subject")["value"].min()
    run_iou = mean_of_regions(_rows_of(leaders, case_rows), ["run", "case"])
    case_iou = run_iou.groupby("case").min()
    cases = case_rows.drop_duplicates("case")[["case", "subject"]]
    cases = cases.assign(
        subject_iou=cases["subject"].map(subject_iou),
        case_iou=cases["case"].map(case_iou),
    )
    ordered = cases.sort_values(["subject_iou", "subject", "case_iou"], na_position="last")
    return list(ordered["case"])


def _by_candidate(scores: pd.DataFrame) -> Iterator[tuple[Candidate, pd.DataFrame]]:
    """Yield the rows of each method and budget."""
    for (method, budget), rows in scores.groupby(["method", "budget"], sort=False):
        yield (str(method), str(budget)), rows


def _rows_of(candidates: Collection[Candidate], rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of these methods and budgets."""
    is_candidate = []
    for candidate in zip(rows["method"], rows["budget"], strict=True):
        is_candidate.append(candidate in candidates)
    return rows[is_candidate]


def _calibration_error(material: Material, runs: Collection[str]) -> float | None:
    """Mean over the subjects of these runs, in per cent; None if it is nowhere defined."""
    scores = material.clean
    run_scores = scores[scores["run"].isin(runs)]
    errors = per_subject(run_scores, "ece")["value"]
    if errors.isna().all():
        return None
    return 100 * float(errors.mean())


def describe_best(best: Best | None, names_budgets: bool) -> list[str]:
    """Sentences on the best method: its mean IoU, its worst subject and its calibration error."""
    if best is None:
        return ["No test subject has a defined IoU: truth and masks are all empty."]
    own = verb(len(best.leaders), "Its", "Their")
    sentences = [
        f"{_claim(best, names_budgets)} over {plural(best.subjects, 'test subject')}.",
        f"{own} worst test subject is {best.worst_subject} with an IoU of {best.worst_iou:.1f} %.",
    ]
    if best.calibration_error is not None:
        error = f"{best.calibration_error:.1f} %"
        sentences.append(f"{own} expected calibration error (ECE) is {error}.")
    return sentences


def _claim(best: Best, names_budgets: bool) -> str:
    names = []
    for method, budget in best.leaders:
        names.append(f"{method} ({budget})" if names_budgets else method)
    if len(names) > 1:
        return f"{listed(names)} are tied with a mean IoU of {best.mean_iou} %"
    if best.other_candidates:
        return f"{names[0]} has the highest mean IoU: {best.mean_iou} %"
    return f"{names[0]} has a mean IoU of {best.mean_iou} %"
