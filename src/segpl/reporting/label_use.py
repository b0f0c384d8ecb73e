"""How many labelled subjects the runs used, and for what: a sentence for each label budget."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from segpl.reporting.material import RunFolder
from segpl.reporting.words import plural
from segpl.rundir import SPLIT_FILE

LabelUse = Mapping[str, Any]
"""What training wrote to split.json under `labelled_subjects`."""


def label_use(runs: Sequence[RunFolder]) -> list[str]:
    """What the labelled subjects of these runs were used for; runs without a record are left out."""
    return label_use_by_budget((run.budget, run.read(SPLIT_FILE)) for run in runs)


def label_use_by_budget(splits: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The same from pairs of a budget's name and the contents of split.json, each sentence once."""
    sentences: dict[tuple[str, str], None] = {}
    for budget, split in splits:
        if "labelled_subjects" in split:
            sentences[budget, label_use_sentence(split["labelled_subjects"])] = None
    budgets = {budget for budget, _ in sentences}
    if len(budgets) == 1:
        return [sentence for _, sentence in sentences]
    return [f"{budget}: {sentence}" for budget, sentence in sentences]


def label_use_sentence(use: LabelUse) -> str:
    """One sentence on a run's labelled subjects."""
    total = plural(use["total"], "labelled subject")
    if not use["validation"]:
        return f"{total} to learn from and none to choose the weights, which are those of the last step."
    if use["extra_validation"]:
        return (
            f"{plural(use['learning'], 'labelled subject')} to learn from, and "
            f"{plural(use['validation'], 'further labelled subject')} "
            f"to choose the weights: {use['total']} in all."
        )
    return (
        f"{total}: {use['learning']} to learn from and {use['validation']} to choose the weights."
    )


def without_validation(runs: Sequence[RunFolder]) -> list[RunFolder]:
    """The runs that had no validation subjects, so that no temperature could be fitted."""
    found = []
    for run in runs:
        use = run.read(SPLIT_FILE).get("labelled_subjects")
        if use and not use["validation"]:
            found.append(run)
    return found
