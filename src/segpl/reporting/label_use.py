"""How many labelled subjects the runs used, and for what: a sentence for each label budget."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from segpl.reporting.grammar import plural
from segpl.reporting.run_folder import RunFolder
from segpl.rundir import SPLIT_FILE

LabelUse = Mapping[str, Any]
"""What training wrote to split.json under `labelled_subjects`."""


def label_use(runs: Sequence[RunFolder]) -> list[str]:
    """What the labelled subjects of these runs were used for, if the runs recorded it."""
    return label_use_by_budget((run.budget, run.read(SPLIT_FILE)) for run in runs)


def label_use_by_budget(splits: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The same from pairs of a budget's name and the contents of split.json.

    Equal sentences are given once. The budget is named only if there are several.
    """
    sentences: list[tuple[str, str]] = []
    for budget, split in splits:
        if "labelled_subjects" in split:
            sentence = label_use_sentence(split["labelled_subjects"])
            sentences.append((budget, sentence))
    unique_sentences = list(dict.fromkeys(sentences))
    budgets = {budget for budget, _ in unique_sentences}
    if len(budgets) == 1:
        return [sentence for _, sentence in unique_sentences]
    return [f"{budget}: {sentence}" for budget, sentence in unique_sentences]


def label_use_sentence(use: LabelUse) -> str:
    """One sentence on the labelled subjects of a run."""
    total = plural(use["total"], "labelled subject")
    learning = use["learning"]
    validation = use["validation"]
    if not validation:
        return (
            f"{total} to learn from and none to choose the weights, "
            "which are those of the last step."
        )
    if use["extra_validation"]:
        return (
            f"{plural(learning, 'labelled subject')} to learn from, and "
            f"{plural(validation, 'further labelled subject')} "
            f"to choose the weights: {use['total']} in all."
        )
    return f"{total}: {learning} to learn from and {validation} to choose the weights."


def without_validation(runs: Sequence[RunFolder]) -> list[RunFolder]:
    """The runs without validation subjects, for which no temperature could be fitted."""
    selected = []
    for run in runs:
        use = run.read(SPLIT_FILE).get("labelled_subjects")
        if use and not use["validation"]:
            selected.append(run)
    return selected
