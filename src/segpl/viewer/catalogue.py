"""The list of scans: unlabelled ones in the order of `segpl rank`, test cases by score."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pandas as pd

from segpl.data.cases import Case, Cases, Dataset
from segpl.data.layouts import read_dataset, read_originals
from segpl.data.reviews import Review, read_log, review_folder, standing_reviews
from segpl.foundation.errors import UserError
from segpl.rundir import (
    read_split,
    read_table,
    read_text_table,
    run_directories,
    scoring_files,
    scoring_suffix,
)
from segpl.viewer.sources import Source


class Part(StrEnum):
    """What a scan is to the run, or to the data folder where there is no run."""

    UNLABELLED = "unlabelled"
    LABELLED = "labelled"
    TEST = "test"


@dataclass(frozen=True)
class Entry:
    """A scan of the list."""

    number: int
    """By which the page asks for the scan; it stays the same while the server runs."""
    case: Case
    """As the layout describes it: with its original label, if there is one."""
    part: Part
    label: Path | None
    """The label that a training would use now."""
    review: Review | None
    rank: int | None = None
    reason: str = ""
    """Why `segpl rank` proposes the scan."""
    dice: float | None = None
    """Mean over regions and runs, of a test case."""


class Catalogue:
    """The scans of a data folder, with what is known of them now."""

    def __init__(self, source: Source):
        self.source = source
        self.originals: Dataset = read_originals(source.data)
        self.review_folder = review_folder(source.data)
        self._cases: Cases = self.originals.training + self.originals.test
        self._test_names = _test_names(source, self.originals)
        self._unlabelled_names = _unlabelled_names(source, self.originals)

    def entries(self) -> list[Entry]:
        """All scans in the order of the page. Rankings and reviews are read now."""
        dataset = read_dataset(self.source.data)
        labels = {case.name: case.label for case in dataset.training + dataset.test}
        reviews = standing_reviews(read_log(review_folder(self.source.data)))
        ranks = _read_ranks(self.source)
        scores = _read_scores(self.source)
        entries = []
        for number, case in enumerate(self._cases):
            rank, reason = ranks.get(case.name, (None, ""))
            part = self._part(case)
            entry = Entry(
                number=number,
                case=case,
                part=part,
                label=labels.get(case.name),
                review=reviews.get(case.name),
                rank=rank if part is Part.UNLABELLED else None,
                reason=reason if part is Part.UNLABELLED else "",
                dice=scores.get(case.name) if part is Part.TEST else None,
            )
            entries.append(entry)
        return sorted(entries, key=_position)

    def __len__(self) -> int:
        return len(self._cases)

    def case(self, number: int) -> Case:
        """The scan of this number."""
        return self._cases[number]

    def entry(self, number: int) -> Entry:
        """The scan of this number, with what is known of it now."""
        (entry,) = [entry for entry in self.entries() if entry.number == number]
        return entry

    def _part(self, case: Case) -> Part:
        if case.name in self._test_names:
            return Part.TEST
        return Part.UNLABELLED if case.name in self._unlabelled_names else Part.LABELLED


def _position(entry: Entry) -> tuple[int, float, str]:
    """Unlabelled scans by rank, test cases with the worst first, then the labelled ones by name."""
    part = [Part.UNLABELLED, Part.TEST, Part.LABELLED].index(entry.part)
    within = float("inf")
    if entry.rank is not None:
        within = entry.rank
    elif entry.dice is not None:
        within = entry.dice
    return part, within, entry.case.name


def _test_names(source: Source, dataset: Dataset) -> set[str]:
    """The test folder, and the subjects that were held out and scored."""
    names = {case.name for case in dataset.test}
    return names | set(_read_scores(source))


def _unlabelled_names(source: Source, dataset: Dataset) -> set[str]:
    """Scans whose label no run has seen; without a run, those that have no label."""
    splits = []
    for run in run_directories(source.runs) if source.runs else []:
        split = read_split(run)
        if split is not None:
            splits.append(set(split["unlabelled"]))
    if splits:
        return set.intersection(*splits)
    return {case.name for case in dataset.training if case.label is None}


def _read_ranks(source: Source) -> dict[str, tuple[int, str]]:
    """Rank and reason by the name of the case; scans that could not be ranked are left out."""
    file = source.ranking()
    if file is None:
        return {}
    table = read_text_table(file)
    if not {"rank", "case", "reason"} <= set(table.columns):
        raise UserError(f"{file} is not a list of segpl rank: write it again.")
    ranks = {}
    for row in table.to_dict("records"):
        if row["rank"].isdigit():
            ranks[row["case"]] = (int(row["rank"]), row["reason"])
    return ranks


def _read_scores(source: Source) -> dict[str, float]:
    """The mean Dice of each test case over regions and runs."""
    tables = []
    for run in run_directories(source.runs) if source.runs else []:
        suffix = scoring_suffix(run)
        if suffix is not None:
            table = read_table(scoring_files(run, suffix).scores)
            is_clean = table["shift"] == "clean"
            tables.append(table[is_clean & (table["metric"] == "dice")])
    return _mean_by_case(tables)


def _mean_by_case(tables: Sequence[pd.DataFrame]) -> dict[str, float]:
    if not tables:
        return {}
    values = pd.concat(tables).dropna(subset=["value"])
    means = values.groupby("case")["value"].mean()
    return {str(case): float(value) for case, value in means.items()}
