"""Labels that a reader accepted or corrected in `segpl view`, and scans that a reader rejected.

They are in a folder `reviewed` with a log, inside the data folder or, where that is read-only,
beside it. Every layout uses them: a reviewed label takes the place of the original one, which is
never overwritten, and a rejected scan is left out. Test cases are never changed.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from segpl.data.cases import Case, Dataset
from segpl.foundation.errors import UserError
from segpl.foundation.files import file_name
from segpl.foundation.tables import write_rows
from segpl.rundir import read_text_table

FOLDER = "reviewed"
LOG_FILE = "reviews.csv"
ENDING = ".nii.gz"

IMAGES_WITH_LABELS = "imagesTr"
LABELS = "labelsTr"
"""The folders of nnU-Net and of the Decathlon. Other tools find new labels there too."""


class Decision(StrEnum):
    """What a reader decided about a scan."""

    ACCEPTED = "accepted"
    """The mask of the model is the label."""
    CORRECTED = "corrected"
    """The mask that the reader drew is the label."""
    REJECTED = "rejected"
    """The scan is not to be used."""
    WITHDRAWN = "withdrawn"
    """The decisions before this one do not count."""


@dataclass(frozen=True)
class Review:
    """A row of the log."""

    date: str
    """In UTC, as in 2026-11-18T15:04:05Z."""
    case: str
    decision: Decision
    label: str = ""
    """The file of the label, relative to the folder of the log; empty if none was written."""
    digest: str = ""
    """SHA-256 of that file, by which it is known from a label that somebody else put there."""
    run: str = ""
    """The run whose mask was reviewed; empty if there was none."""
    thresholds: str = ""
    """The threshold of each region, separated by spaces; empty if nothing was predicted."""
    reviewer: str = ""


COLUMNS = tuple(entry.name for entry in fields(Review))


def now() -> str:
    """The time, as the log has it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def review_folder(data: Path) -> Path:
    """Where the reviews of a data folder, or of a manifest, are or would be written."""
    candidates = _candidate_folders(data)
    for folder in candidates:
        if (folder / LOG_FILE).is_file():
            return folder
    for folder in candidates:
        if os.access(_existing_parent(folder), os.W_OK):
            return folder
    return candidates[0]


def _candidate_folders(data: Path) -> list[Path]:
    data = data.resolve()
    if data.is_dir():
        return [data / FOLDER, data.with_name(f"{data.name}-{FOLDER}")]
    return [data.with_name(f"{data.stem}-{FOLDER}")]


def _existing_parent(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def read_log(folder: Path) -> list[Review]:
    """All reviews in the order of their dates; none if there is no log."""
    file = folder / LOG_FILE
    if not file.is_file():
        return []
    table = read_text_table(file)
    if tuple(table.columns) != COLUMNS:
        raise UserError(f"{file} has other columns than segpl view writes: move it away.")
    reviews = []
    for row in table.itertuples(index=False):
        date, case, decision, *others = row
        if decision not in list(Decision):
            raise UserError(
                f"{file} has the decision {decision!r}: write one of {', '.join(Decision)}."
            )
        reviews.append(Review(date, case, Decision(decision), *others))
    return reviews


def write_log(folder: Path, reviews: Sequence[Review]) -> None:
    """Write the log with all reviews."""
    write_rows(folder / LOG_FILE, COLUMNS, [asdict(review) for review in reviews])


def standing_reviews(reviews: Sequence[Review]) -> dict[str, Review]:
    """The last review of each case that was not withdrawn, by the name of the case."""
    last = {review.case: review for review in reviews}
    return {
        case: review for case, review in last.items() if review.decision is not Decision.WITHDRAWN
    }


def reviewed_label(folder: Path, case: str) -> Path:
    """The file of a reviewed label in the folder of reviews."""
    return folder / f"{file_name(case)}{ENDING}"


def label_destination(case: Case, layout_has_labels: bool, folder: Path) -> Path:
    """Where the label of a reviewed scan is written: `labelsTr`, or the folder of reviews.

    A scan that has an original label keeps it, so its reviewed label goes to the folder of reviews.
    """
    image = case.images[0]
    in_reviews = reviewed_label(folder, case.name)
    if not layout_has_labels or case.label or image.parent.name != IMAGES_WITH_LABELS:
        return in_reviews
    ending = image.name.removeprefix(case.name).removeprefix("_0000")
    labels = image.parent.with_name(LABELS)
    file = labels / f"{case.name}{ending}"
    is_writable = os.access(_existing_parent(labels), os.W_OK)
    if ending not in (".nii", ".nii.gz") or not is_writable or file.exists():
        return in_reviews
    return file


def digest_of(file: Path) -> str:
    """The SHA-256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_review_folder(folder: Path) -> bool:
    """Whether this is a folder of reviews and not, say, a patient of that name."""
    return folder.name.endswith(FOLDER) and (folder / LOG_FILE).is_file()


def with_reviews(dataset: Dataset) -> Dataset:
    """The dataset with the reviewed labels of its training cases, and without rejected ones."""
    folder = review_folder(dataset.folder)
    reviews = standing_reviews(read_log(folder))
    if not reviews:
        return dataset
    training = []
    for case in dataset.training:
        review = reviews.get(case.name)
        if review is None or review.decision is not Decision.REJECTED:
            training.append(_with_reviewed_label(case, review, folder))
    return replace(dataset, training=tuple(training))


def _with_reviewed_label(case: Case, review: Review | None, folder: Path) -> Case:
    file = reviewed_label(folder, case.name)
    if review is None or review.label != file.name:  # a label in labelsTr is part of the layout
        return case
    if not file.is_file():
        raise UserError(
            f"{file} is missing, but {folder / LOG_FILE} lists it: put it back, or withdraw the "
            "review in segpl view."
        )
    return replace(case, label=file)
