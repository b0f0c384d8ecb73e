"""What a reader decides about a scan, written to disk: the label, and a row of the log."""

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock
from jaxtyping import Shaped, UInt8

from segpl.data.cases import Case, Dataset, Region
from segpl.data.frames import Frame
from segpl.data.layouts import LAYOUTS_WITH_LABELS_FOLDER
from segpl.data.reviews import (
    Decision,
    Review,
    digest_of,
    label_destination,
    now,
    read_log,
    review_folder,
    standing_reviews,
    write_log,
)
from segpl.data.saving import save_nifti
from segpl.foundation.errors import UserError
from segpl.viewer.percent import Percent

Numbers = UInt8[np.ndarray, "X Y Z"]
"""The number of the region at each voxel, counted from 1; 0 is background."""


class TooLargeError(Exception):
    """An upload that is larger than the mask of the scan."""


@dataclass(frozen=True)
class Reviewer:
    """Writes reviews for one data folder."""

    dataset: Dataset
    """As its layout describes it, without reviews."""
    run: str = ""
    name: str = ""
    """Of the person; empty unless it was given."""

    @property
    def folder(self) -> Path:
        """The folder of the log and of the labels that have no place in the layout."""
        return review_folder(self.dataset.folder)

    def save_label(
        self,
        case: Case,
        decision: Decision,
        numbers: Numbers,
        frame: Frame,
        thresholds: Sequence[int] = (),
    ) -> Path:
        """Write a mask as the label of a scan, log it, and return its file."""
        label = label_values(numbers, self.dataset.task.regions)
        with self._lock():
            reviews = read_log(self.folder)
            before = standing_reviews(reviews).get(case.name)
            file = self._own_label(before)
            if file is None:
                has_place = self.dataset.layout in LAYOUTS_WITH_LABELS_FOLDER
                file = label_destination(case, has_place, self.folder)
            save_nifti(file, label, frame)
            review = Review(
                date=now(),
                case=case.name,
                decision=decision,
                label=_relative(file, self.folder),
                digest=digest_of(file),
                run=self.run,
                thresholds=" ".join(f"{threshold / 100:g}" for threshold in thresholds),
                reviewer=self.name,
            )
            write_log(self.folder, [*reviews, review])
        return file

    def reject(self, case: Case) -> None:
        """Leave a scan out of the next trainings."""
        self._save_without_label(case, Decision.REJECTED)

    def withdraw(self, case: Case) -> None:
        """Take back all reviews of a scan."""
        self._save_without_label(case, Decision.WITHDRAWN)

    def _save_without_label(self, case: Case, decision: Decision) -> None:
        """Log a decision, and remove the label of an earlier one."""
        with self._lock():
            reviews = read_log(self.folder)
            before = standing_reviews(reviews).get(case.name)
            review = Review(now(), case.name, decision, run=self.run, reviewer=self.name)
            write_log(self.folder, [*reviews, review])
            own_label = self._own_label(before)
            if own_label is not None:
                own_label.unlink()

    def _own_label(self, before: Review | None) -> Path | None:
        """The label that an earlier review wrote, unless somebody has changed it since."""
        if before is None or not before.label:
            return None
        file = self.folder / before.label
        if not file.is_file() or digest_of(file) != before.digest:
            return None
        return file

    def _lock(self) -> FileLock:
        """Two viewers may write to one log."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"{self.folder} cannot be made ({error.strerror}): copy the data to a folder that "
                "you may write to."
            ) from None
        return FileLock(self.folder / ".reviews.lock")


def _relative(file: Path, folder: Path) -> str:
    """The path from one folder to a file in it, or in a folder beside it."""
    return Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix()


def label_values(numbers: Numbers, regions: Sequence[Region]) -> Shaped[np.ndarray, "X Y Z"]:
    """A label in the values of the data, from the number of the region at each voxel.

    An error if the data have no value for a region where no other one covers it.
    """
    if int(numbers.max(initial=0)) > len(regions):
        raise UserError(f"the mask has {numbers.max()} regions, but there are {len(regions)}.")
    known = set[int]().union(*[region.values for region in regions])
    table = np.zeros(len(regions) + 1, dtype=_smallest_type(regions))
    for number, region in enumerate(regions, start=1):
        table[number] = region.paint
        if region.paint not in known and (numbers == number).any():
            raise UserError(
                f"no label value stands for {region.name} alone: cover all of it with the "
                "regions inside it."
            )
    return table[numbers]


def _smallest_type(regions: Sequence[Region]) -> np.dtype:
    types = [np.min_scalar_type(region.paint) for region in regions]
    return np.result_type(np.uint8, *types)


def numbers_at(maps: Sequence[Percent], thresholds: Sequence[int]) -> Numbers:
    """The mask at the threshold of each region, in per cent; a later region covers an earlier."""
    numbers = np.zeros(maps[0].shape, dtype=np.uint8)
    for number, (percent, threshold) in enumerate(zip(maps, thresholds, strict=True), start=1):
        numbers[percent > threshold] = number
    return numbers


def unpack(content: bytes, shape: tuple[int, int, int]) -> Numbers:
    """The voxels of an uploaded mask: gzip of one byte each, X changing fastest.

    No more is unpacked than the scan has voxels.
    """
    voxels = shape[0] * shape[1] * shape[2]
    unpacker = zlib.decompressobj(wbits=31)  # 31: with the header of gzip
    try:
        values = unpacker.decompress(content, voxels + 1)
    except zlib.error:
        raise UserError("the mask did not arrive whole: save it again.") from None
    if len(values) > voxels:
        raise TooLargeError("the mask has more voxels than the scan.")
    if len(values) < voxels or not unpacker.eof:
        raise UserError("the mask has fewer voxels than the scan: save it again.")
    return np.frombuffer(values, dtype=np.uint8).reshape(shape, order="F")
