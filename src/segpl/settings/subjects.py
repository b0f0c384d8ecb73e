"""Which cases of a dataset a run uses, by its settings."""

from segpl.data.cases import Cases, Dataset
from segpl.data.splits import TrainingCases, cases_for_test, training_cases
from segpl.foundation.errors import UserError
from segpl.settings.run import Run


def training_cases_of(run: Run, dataset: Dataset) -> TrainingCases:
    """The cases that the training of a run sees."""
    return training_cases(
        dataset,
        run.labelled,
        run.seed,
        run.validation,
        run.test,
        run.unlabelled,
        run.grade,
    )


def held_out_cases_of(run: Run, dataset: Dataset) -> Cases:
    """The labelled cases that a run is tested on."""
    return cases_for_test(dataset, run.seed, run.test, run.grade)


def check_unlabelled(run: Run, cases: TrainingCases) -> None:
    """Refuse a method that needs more unlabelled scans than there are."""
    if not run.method.uses_unlabelled():
        return
    if not cases.unlabelled:
        raise UserError(
            f"{run.data} leaves no unlabelled scan for {run.method.name()}: add scans without a "
            "label, ask for fewer labelled ones with --labelled, or use --method supervised."
        )
    if run.unlabelled is not None and cases.unlabelled_subjects < run.unlabelled:
        available = cases.unlabelled_subjects
        raise UserError(
            f"unlabelled is {run.unlabelled}, but {run.data} leaves {available} unlabelled "
            f"subjects: use --set unlabelled={available}, or ask for fewer labelled, validation "
            "or test subjects.",
            where=("unlabelled",),
        )
