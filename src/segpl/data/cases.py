"""The contents of a data folder: cases of subjects, channels of images and regions of labels."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from segpl.foundation.errors import UserError

LOWEST_PAINT = -(2**15)
HIGHEST_PAINT = 2**16 - 1
"""Values that a mask in any format can hold."""
USUAL_IGNORE_VALUE = 255
"""The label value of voxels that are not labelled, unless the data set says otherwise."""


@dataclass(frozen=True)
class Region:
    """One binary problem: the voxels whose label value is among `values`."""

    name: str
    values: tuple[int, ...]
    paint: int
    """The value of the region in a label map that combines the masks of all regions."""


@dataclass(frozen=True)
class Task:
    """The input channels of a model and the regions that it segments."""

    channels: tuple[str, ...]
    regions: tuple[Region, ...]
    """In painting order: a later region covers an earlier one, so the largest region is first."""
    ignore: int | None = None
    """The label value of voxels that no loss and no score counts, where the data set names one."""

    @property
    def ignored_value(self) -> int | None:
        """The value to ignore: the one that the data set names, or 255 if no region has it."""
        if self.ignore is not None:
            return self.ignore
        for region in self.regions:
            if USUAL_IGNORE_VALUE in region.values:
                return None
        return USUAL_IGNORE_VALUE


@dataclass(frozen=True)
class Case:
    """One scan: the files of its channels, and its label if there is one."""

    name: str
    subject: str
    images: tuple[Path, ...]
    label: Path | None = None
    grade: str | None = None
    """The grade of a glioma, HGG or LGG, if the data set gives it."""

    def unlabelled(self) -> "Case":
        """The same scan without the path of its label."""
        return replace(self, label=None)


Cases = tuple[Case, ...]


def readable(name: str) -> str:
    """The name of a case that can be shown and written: valid UTF-8 without line breaks.

    Old archives hold names in Latin-1, so that is how other bytes are read.
    """
    has_foreign_bytes = any("\udc80" <= letter <= "\udcff" for letter in name)
    if has_foreign_bytes:
        name = name.encode("utf-8", errors="surrogateescape").decode("latin-1")
    letters = []
    for letter in name:
        is_control = unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")
        letters.append("_" if is_control else letter)
    return "".join(letters)


def with_readable_names(cases: Iterable[Case]) -> Cases:
    """The same cases with names that can be shown and written."""
    renamed = []
    for case in cases:
        subject = readable(case.subject)
        renamed.append(replace(case, name=readable(case.name), subject=subject))
    return tuple(renamed)


def check_task(task: Task, source: Path) -> None:
    """Raise an error if the masks of some region could never be written.

    `source` is the file or folder that describes the task.
    """
    for region in task.regions:
        if task.ignore in region.values:
            raise UserError(
                f"{source}: the value {task.ignore} is to be ignored and belongs to region "
                f"{region.name}: choose one of them."
            )
    for index, region in enumerate(task.regions):
        if region.paint == 0 or not LOWEST_PAINT <= region.paint <= HIGHEST_PAINT:
            raise UserError(
                f"{source}: region {region.name} has the value {region.paint} in masks, where 0 is "
                f"the background: give it another one, up to {HIGHEST_PAINT}, as in "
                "regions_class_order."
            )
        for later in task.regions[index + 1 :]:
            if set(region.values) <= set(later.values):
                raise UserError(
                    f"{source}: region {later.name} covers all of {region.name}, which would be "
                    "missing in every mask: name the larger region first."
                )


@dataclass(frozen=True)
class Dataset:
    """What a layout finds in a folder, before any image is loaded."""

    folder: Path
    task: Task
    training: Cases
    test: Cases
    use_slices: bool = False
    """Whether a model is trained on 2D slices, as the paper does with BRATS."""
    layout: str = ""
    """The name of the layout, for messages."""
    subject_rule: str = ""
    """How the subjects were found, for messages; empty if the data describe them."""
