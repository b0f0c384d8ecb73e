"""Sentences on whether the guard intervened in training."""

from collections.abc import Sequence

from segpl.reporting.facts import GuardAct
from segpl.reporting.material import Material
from segpl.reporting.run_folder import RunFolder

MAX_INTERVENTIONS = 6
"""Interventions that are listed one by one."""


def describe_guard(material: Material) -> str:
    """What the guard did in the runs that learnt from unlabelled scans; empty without such runs."""
    runs = [run for run in material.runs if run.facts.uses_unlabelled is not False]
    sentences = [
        _describe_interventions(runs),
        _describe_switched_off(runs),
        _describe_unknown(runs),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _describe_interventions(runs: Sequence[RunFolder]) -> str:
    watched = [run for run in runs if _is_watched(run)]
    if not watched:
        return ""
    interventions = []
    for run in watched:
        for act in run.facts.guard_acts or ():
            interventions.append(_describe_intervention(run, act))
    if not interventions:
        return (
            "The guard never intervened: in no run did the pseudo-labels become empty or full "
            "while the labels were not."
        )
    listed = interventions[:MAX_INTERVENTIONS]
    if len(interventions) > MAX_INTERVENTIONS:
        listed.append(f"{len(interventions) - MAX_INTERVENTIONS} more")
    return (
        "The guard reduced alpha, because the pseudo-labels had become empty or full: "
        f"{'; '.join(listed)}."
    )


def _is_watched(run: RunFolder) -> bool:
    """Whether the guard was on and its interventions are known."""
    return run.facts.guard_acts is not None and run.facts.guard_on is not False


def _describe_intervention(run: RunFolder, act: GuardAct) -> str:
    return f"{run.name} after step {act.after_step} (alpha times {act.alpha_factor:g})"


def _describe_switched_off(runs: Sequence[RunFolder]) -> str:
    names = [run.name for run in runs if run.facts.guard_on is False]
    if not names:
        return ""
    return f"The guard was switched off in {', '.join(names)}."


def _describe_unknown(runs: Sequence[RunFolder]) -> str:
    names = [run.name for run in runs if run.facts.guard_acts is None]
    if not names:
        return ""
    return (
        f"Unknown whether the guard intervened in {', '.join(names)}: these runs have neither "
        "a record of it nor a log."
    )
