"""The top of the page: the verdict in one sentence, the best method, and warnings."""

from collections.abc import Sequence
from dataclasses import dataclass

from segpl.foundation.errors import UserError
from segpl.reporting.grammar import plural, verb
from segpl.reporting.material import Material
from segpl.reporting.page.best_and_worst import Best, describe_best
from segpl.reporting.verdict import (
    DEFAULT_BASELINE,
    Comparison,
    Kind,
    Verdict,
    compare,
    corrected_verdicts,
)

ORDER = (Kind.HELPS, Kind.HURTS, Kind.INCONCLUSIVE)
"""Of the verdicts on the page."""
NO_VERDICT = "missing"
"""Kind of a headline without a verdict."""
NO_BASELINE = (
    "No verdict on the unlabelled scans: no run here was trained on labels only. Train one with "
    f"segpl train DATA --method {DEFAULT_BASELINE}, with the same number of labels and the same "
    "seed. Then run segpl evaluate on it and report both runs together."
)
NO_OTHER_METHOD = (
    "Nothing to compare: all runs here use {}. Train another method with the same number of "
    "labels and the same seed. Then run segpl evaluate on it and report both runs together."
)
NO_SCORES = (
    "No run here has been evaluated: run segpl evaluate on each, then make this report again."
)


@dataclass(frozen=True)
class Headline:
    """The text at the top of the page."""

    kind: str
    """The kind of the first verdict in lower case, or `NO_VERDICT`; the page colours it."""
    sentence: str
    """The first verdict, or what is needed to get one."""
    other_verdicts: Sequence[str]
    about_best: Sequence[str]
    """Sentences on the best method."""
    warnings: Sequence[str]


def make_headline(material: Material, best: Best | None) -> Headline:
    """The verdict on these runs; without a verdict, what is needed to get one."""
    warnings = _warnings(material)
    if material.clean.empty:
        return Headline(NO_VERDICT, NO_SCORES, [], [], warnings)
    about_best = describe_best(best, names_budgets=len(material.budgets) > 1)
    baseline = material.baseline
    if baseline is None:
        return Headline(NO_VERDICT, NO_BASELINE, [], about_best, warnings)
    if set(material.clean["method"]) == {baseline}:
        return Headline(NO_VERDICT, NO_OTHER_METHOD.format(baseline), [], about_best, warnings)
    verdicts, problems = find_verdicts(material, baseline)
    if not verdicts:
        sentence = "No verdict is possible. " + " ".join(problems)
        return Headline(NO_VERDICT, sentence, [], about_best, warnings)
    first, *others = verdicts
    return Headline(
        kind=first.kind.name.lower(),
        sentence=first.sentence,
        other_verdicts=[verdict.sentence for verdict in others],
        about_best=about_best,
        warnings=[*warnings, *problems],
    )


def find_verdicts(material: Material, baseline: str) -> tuple[list[Verdict], list[str]]:
    """A verdict for every method and budget, clearest first, and why others are missing."""
    comparisons: list[Comparison] = []
    problems: list[str] = []
    for _, scores in material.scores.groupby("budget", sort=False):
        for method in scores["method"].unique():
            if method == baseline:
                continue
            try:
                comparisons.append(compare(scores, str(method), baseline))
            except UserError as error:
                problems.append(str(error))
    verdicts = corrected_verdicts(comparisons, material.labels_only, material.unknown_use)
    return sorted(verdicts, key=_clearest_first), list(dict.fromkeys(problems))


def _clearest_first(verdict: Verdict) -> tuple[int, float]:
    return ORDER.index(verdict.kind), -verdict.comparison.effect


def _warnings(material: Material) -> list[str]:
    """What is missing from the page, and what makes the comparison of the runs unfair."""
    return [
        *material.unknown_use_notes,
        *material.setting_differences,
        *_failed_runs(material),
        *_unscored_runs(material),
        *_old_tables(material),
    ]


def _failed_runs(material: Material) -> list[str]:
    failed = material.failed
    if not failed:
        return []
    runs = plural(len(material.runs), "run")
    are = verb(len(failed), "is", "are")
    sentences = [f"{len(failed)} of {runs} failed and {are} missing from everything below:"]
    for run in failed:
        sentences.append(f"{run.name}: {run.failure}")
    return sentences


def _unscored_runs(material: Material) -> list[str]:
    unscored = [run.name for run in material.unscored if not run.failure]
    if not unscored or material.scores.empty:
        return []
    runs = plural(len(material.runs), "run")
    have = verb(len(unscored), "has", "have")
    return [f"{len(unscored)} of {runs} {have} not been evaluated: {', '.join(unscored)}."]


def _old_tables(material: Material) -> list[str]:
    if not material.tables_not_shown:
        return []
    names = ", ".join(file.name for file in material.tables_not_shown)
    return [
        f"{names}: tables of an earlier version of segpl are not shown. Run the same segpl study "
        "again: it keeps the finished runs and writes new tables."
    ]
