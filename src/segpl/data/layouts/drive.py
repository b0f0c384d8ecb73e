"""DRIVE as its organisers ship it.

`training/images`, `training/1st_manual`, and the same two folders below `test`.
"""

import re
from pathlib import Path

from segpl.data.cases import Cases, Dataset, Region, Task
from segpl.data.formats import stem
from segpl.data.layouts.pairing import images_in, pair

NAME = "DRIVE"
DESCRIPTION = (
    "training/images with 21_training.tif, training/1st_manual with 21_manual1.gif, "
    "and the same below test"
)
TREE = """
training/images/       21_training.tif   22_training.tif
training/1st_manual/   21_manual1.gif    22_manual1.gif
test/images/           01_test.tif
test/1st_manual/       01_manual1.gif
"""

TASK = Task(
    channels=("red", "green", "blue"),
    regions=(Region("vessel", values=(255,), paint=255),),
)


def recognises(folder: Path) -> bool:
    """Whether there are photographs and the first observer's annotations."""
    training = folder / "training"
    return (training / "images").is_dir() and (training / "1st_manual").is_dir()


def read(folder: Path) -> Dataset:
    """The dataset in `folder`.

    The second observer's annotations and the masks of the field of view are not used.
    """
    return Dataset(
        folder=folder,
        task=TASK,
        training=_cases(folder / "training"),
        test=_cases(folder / "test"),
        layout=NAME,
    )


def _cases(folder: Path) -> Cases:
    images = images_in(folder / "images")
    labels = images_in(folder / "1st_manual")
    return pair(images, labels, _photograph_number)


def _photograph_number(file: Path) -> str:
    """The number that `21_training.tif` and `21_manual1.gif` share."""
    match = re.match(r"\d+", file.name)
    if match is None:
        return stem(file)
    return match.group()
