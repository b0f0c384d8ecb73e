"""What stands at the top of the page: the answer in a sentence, how far to trust it, and what is missing."""

from collections.abc import Sequence
from dataclasses import dataclass

from segpl.foundation.errors import UserError
from segpl.reporting.material import Material
from segpl.reporting.page.standing import Best, standing_words
from segpl.reporting.verdict import DEFAULT_BASELINE, Comparison, Kind, Verdict, compare, judged
from segpl.reporting.words import plural, verb

ORDER = (Kind.HELPS, Kind.HURTS, Kind.CANNOT_TELL)
NO_BASELINE = (
    "Whether the unlabelled scans help cannot be said: no run here has learnt from labels alone. Train one with "
    f"segpl train DATA --method {DEFAULT_BASELINE}, with as many labels and the same seed, score it with segpl "
    "evaluate, and report both together."
)
NO_OTHER = (
    "There is nothing to compare with: all runs here are {}. Train another method with as many labels and the same "
    "seed, score it with segpl evaluate, and report both together."
)
NO_SCORES = "No run here has been scored: use segpl evaluate on each, then make this report again."


@dataclass(frozen=True)
class Headline:
    """The lead sentence with its kind, all other answers, how good and how sure it is, and warnings."""

    kind: str
    sentence: str
    others: Sequence[str]
    trust: Sequence[str]
    warnings: Sequence[str]


def headline(material: Material, best: Best | None) -> Headline:
    """The verdict on these runs; where there is none, what it takes to have one."""
    warnings, baseline = _warnings(material), material.baseline
    if material.clean.empty:
        return Headline("missing", NO_SCORES, [], [], warnings)
    trust = standing_words(best, names_budgets=len(material.budgets) > 1)
    if baseline is None or set(material.clean["method"]) == {baseline}:
        sentence = NO_BASELINE if baseline is None else NO_OTHER.format(baseline)
        return Headline("missing", sentence, [], trust, warnings)
    found, missing = answers(material, baseline)
    if not found:
        return Headline(
            "missing", "No verdict is possible. " + " ".join(missing), [], trust, warnings
        )
    first, *rest = found
    kind = first.kind.name.lower().replace("_", "-")
    return Headline(
        kind, first.sentence, [one.sentence for one in rest], trust, [*warnings, *missing]
    )


def answers(material: Material, baseline: str) -> tuple[list[Verdict], list[str]]:
    """A verdict for every method and budget, the clearest first; and what lacks."""
    compared: list[Comparison] = []
    missing: list[str] = []
    for _, part in material.scores.groupby("budget", sort=False):
        for method in part["method"].unique():
            try:
                if method != baseline:
                    compared.append(compare(part, str(method), baseline))
            except UserError as error:
                missing.append(str(error))
    found = judged(compared, material.labels_alone, material.of_unknown_use)
    return sorted(found, key=lambda one: (ORDER.index(one.kind), -one.comparison.effect)), list(
        dict.fromkeys(missing)
    )


def _warnings(material: Material) -> list[str]:
    """What is missing from the page, and what keeps the runs from being compared fairly."""
    sentences = [*material.unknown, *material.unlike]
    every = plural(len(material.runs), "run")
    failed = material.failed
    if failed:
        are = verb(len(failed), "is", "are")
        sentences.append(
            f"{len(failed)} of {every} failed and {are} missing from everything below:"
        )
        sentences += [f"{run.name}: {run.failure}" for run in failed]
    waiting = [run.name for run in material.unscored if not run.failure]
    if waiting and len(material.scores):
        have = verb(len(waiting), "has", "have")
        sentences.append(f"{len(waiting)} of {every} {have} not been scored: {', '.join(waiting)}.")
    if material.tables_not_shown:
        names = ", ".join(file.name for file in material.tables_not_shown)
        sentences.append(
            f"{names}: an earlier version of segpl wrote these tables, and they are not shown. Call the same segpl "
            "study again: it keeps finished runs and writes its tables anew."
        )
    return sentences
