"""BRATS as its organisers ship it: case folders with `<case>_flair.nii.gz` and so on, perhaps below `HGG` and `LGG`."""

from itertools import chain
from pathlib import Path

from segpl.data.cases import Case, Dataset, Region, Task
from segpl.foundation.errors import UserError

NAME = "BRATS"
DESCRIPTION = (
    "a folder per case, perhaps below HGG and LGG, with case_flair.nii.gz, _t1, _t1ce, _t2 and _seg"
)

TASK = Task(
    channels=("flair", "t1", "t1ce", "t2"),
    regions=(
        Region("whole tumour", (1, 2, 4), 2),
        Region("tumour core", (1, 4), 1),
        Region("enhancing core", (4,), 4),
    ),
)
"""The paper's label fusion; a map painted in this order has the organisers' own values."""


def recognises(folder: Path) -> bool:
    """At least one case folder."""
    return any(_is_case(each) for each in _folders(folder))


def read(folder: Path) -> Dataset:
    """The data set in `folder`: no split of its own; the cases of the organisers' validation set have no label."""
    cases = tuple(_case(each) for each in _folders(folder) if _is_case(each))
    return Dataset(folder, TASK, cases, (), slices=True, layout=NAME)


def _folders(folder: Path) -> list[Path]:
    grades = [folder / grade for grade in ("HGG", "LGG") if (folder / grade).is_dir()] or [folder]
    found = chain.from_iterable(grade.iterdir() for grade in grades if grade.is_dir())
    return sorted(each for each in found if each.is_dir() and not each.name.startswith("."))


def _is_case(folder: Path) -> bool:
    return any(_find(folder, channel) for channel in TASK.channels)


def _case(folder: Path) -> Case:
    images = tuple(_find(folder, channel) or _missing(folder, channel) for channel in TASK.channels)
    return Case(folder.name, folder.name, images, _find(folder, "seg"))


def _find(folder: Path, kind: str) -> Path | None:
    files = [folder / f"{folder.name}_{kind}{ending}" for ending in (".nii.gz", ".nii")]
    found = [file for file in files if file.is_file()]
    if len(found) > 1:
        raise UserError(f"{found[0]} is there as {found[1].name} too: remove one of them.")
    return found[0] if found else None


def _missing(folder: Path, kind: str) -> Path:
    file = folder / f"{folder.name}_{kind}.nii.gz"
    raise UserError(f"{file} is missing: add it or remove {folder.name}.")
