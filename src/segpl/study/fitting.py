"""Fits the protocol of a study to data with fewer subjects, and notes how the two differ."""

from collections.abc import Sequence

from segpl.data.cases import Case, Dataset
from segpl.data.layouts import read_dataset
from segpl.data.splits import of_grade
from segpl.foundation.named import Settings
from segpl.settings.run import Run
from segpl.study.schema import Budget

REDUCIBLE = {"test": "test subjects", "unlabelled": "unlabelled subjects"}
"""Settings that are reduced, and what they count."""


def fitted_settings(
    settings: Settings,
    budgets: Sequence[Budget],
    dataset: Dataset,
) -> Settings:
    """The settings with as many `test` and `unlabelled` subjects as the data have.

    Test subjects are reduced first, so that trainings stay as they were asked for. All budgets get
    the same numbers, and at least 1 of each is left.
    """
    dataset = of_grade(dataset, settings.get("grade"))
    with_label = {case.subject for case in dataset.training if case.label}
    without_label = {case.subject for case in dataset.training} - with_label
    has_test_folder = any(case.label for case in dataset.test)
    labelled = max(_labelled(budget, settings) for budget in budgets)
    validation = settings.get("validation") or 0
    unlabelled = settings.get("unlabelled") or 1
    spare = len(with_label) - labelled - validation
    fitted = dict(settings)
    held_out = 0
    if settings.get("test") and not has_test_folder:
        losing_label = max(0, unlabelled - len(without_label))
        held_out = min(settings["test"], max(1, spare - losing_label))
        fitted["test"] = held_out
    if settings.get("unlabelled"):
        available = spare - held_out + len(without_label)
        fitted["unlabelled"] = min(unlabelled, max(1, available))
    return fitted


def _labelled(budget: Budget, settings: Settings) -> int:
    """The labelled subjects that a budget asks for; 1 if it takes whatever there is."""
    asked = budget.settings.get("labelled", settings.get("labelled"))
    return asked or 1


def data_notes(settings: Settings, run: Run) -> list[str]:
    """How the subjects of a run differ from what the settings of its study ask for."""
    notes = []
    for key, subjects in REDUCIBLE.items():
        asked = settings.get(key)
        used = getattr(run, key)
        if asked and used and used < asked:
            notes.append(
                f"The protocol asks for {asked} {subjects}, but the data have too few: "
                f"each run has {used}."
            )
    if run.grade:
        notes += _grade_notes(run)
    return notes


def _grade_notes(run: Run) -> list[str]:
    """Whether cases of unknown grade were used, where one grade was asked for."""
    dataset = of_grade(read_dataset(run.data), run.grade)
    cases: list[Case] = [*dataset.training, *dataset.test]
    unknown = [case for case in cases if case.grade is None]
    if not unknown:
        return []
    count = f"{len(unknown)} of {len(cases)} cases"
    return [f"The protocol asks for {run.grade} only; the data do not give the grade of {count}."]
