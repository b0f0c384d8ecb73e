"""Which cases of a dataset a run uses, by its settings."""

from segpl.data.cases import Cases, Dataset
from segpl.data.split_files import FixedSplit, read_split_file
from segpl.data.splits import (
    NO_EARLIER_RUN,
    EarlierRun,
    TrainingCases,
    cases_for_test,
    training_cases,
)
from segpl.foundation.errors import UserError
from segpl.rundir import check_format, required_split
from segpl.settings.run import Run


def training_cases_of(run: Run, dataset: Dataset) -> TrainingCases:
    """The cases that the training of a run sees."""
    fixed = _fixed_split(run, dataset)
    if fixed and fixed.validation and run.validation is not None:
        raise UserError(
            f"validation is {run.validation}, but {fixed.file} names the validation subjects: "
            "leave out one of them.",
            where=("validation",),
        )
    return training_cases(
        dataset,
        run.labelled,
        run.seed,
        run.validation,
        run.test,
        run.unlabelled,
        run.grade,
        fixed,
        _earlier_run(run),
    )


def held_out_cases_of(run: Run, dataset: Dataset) -> Cases:
    """The labelled cases that a run is tested on."""
    fixed = _fixed_split(run, dataset)
    return cases_for_test(dataset, run.seed, run.test, run.grade, fixed, _earlier_run(run))


def _fixed_split(run: Run, dataset: Dataset) -> FixedSplit | None:
    if run.split is None:
        return None
    return read_split_file(run.split, run.fold, dataset)


def _earlier_run(run: Run) -> EarlierRun:
    """What the run has seen whose weights this one starts from."""
    if run.start_from is None:
        return NO_EARLIER_RUN
    check_format(run.start_from)
    split = required_split(run.start_from)
    return EarlierRun(frozenset(split["subjects"]), frozenset(split["labelled"]))


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
