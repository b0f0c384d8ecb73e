"""DRIVE as its organisers ship it: `training/images`, `training/1st_manual` and the same below `test`."""

import re
from pathlib import Path

from segpl.data.cases import Case, Dataset, Region, Task
from segpl.data.formats import stem
from segpl.data.layouts.pairing import images_in, pair

NAME = "DRIVE"
DESCRIPTION = "training/images with 21_training.tif, training/1st_manual with 21_manual1.gif, and the same below test"

TASK = Task(channels=("red", "green", "blue"), regions=(Region("vessel", (255,), 255),))


def recognises(folder: Path) -> bool:
    """Photographs with the first observer's drawings beside them."""
    return (folder / "training" / "images").is_dir() and (
        folder / "training" / "1st_manual"
    ).is_dir()


def read(folder: Path) -> Dataset:
    """The data set in `folder`; the second observer and the masks of the field of view are left alone."""
    return Dataset(folder, TASK, _cases(folder / "training"), _cases(folder / "test"), layout=NAME)


def _cases(part: Path) -> tuple[Case, ...]:
    return pair(images_in(part / "images"), images_in(part / "1st_manual"), _number)


def _number(file: Path) -> str:
    """The number of the eye: `21_training.tif` and `21_manual1.gif` are of one."""
    found = re.match(r"\d+", file.name)
    return found.group() if found else stem(file)
