"""The layout of the paper's code.

`labelled/imgs`, `labelled/lbls`, `unlabelled/imgs`, `test/imgs`, `test/lbls`.
"""

import re
from pathlib import Path

from segpl.data.cases import Cases, Dataset
from segpl.data.formats import stem
from segpl.data.layouts.pairing import images_in, pair
from segpl.data.layouts.task_from_files import infer_task

NAME = "the paper's code"
DESCRIPTION = "labelled/imgs, labelled/lbls, unlabelled/imgs, test/imgs, test/lbls"
TREE = """
labelled/imgs/     1.npy   2.npy
labelled/lbls/     1.npy   2.npy
unlabelled/imgs/   3.npy
test/imgs/         4.npy
test/lbls/         4.npy
"""


def recognises(folder: Path) -> bool:
    """Whether there is a folder of labelled images."""
    return (folder / "labelled" / "imgs").is_dir()


def read(folder: Path) -> Dataset:
    """The dataset in `folder`.

    Cases of a folder `validation` count as training cases; segpl draws its own validation cases.
    """
    labelled = _cases(folder / "labelled")
    validation = _cases(folder / "validation")
    unlabelled = _cases(folder / "unlabelled")
    training = labelled + validation + unlabelled
    test = _cases(folder / "test")
    task = infer_task(folder, training, test)
    return Dataset(folder=folder, task=task, training=training, test=test, layout=NAME)


def _cases(folder: Path) -> Cases:
    images = images_in(folder / "imgs")
    labels = images_in(folder / "lbls")
    return pair(images, labels, _case_name)


def _case_name(file: Path) -> str:
    """The name without its suffix: the authors also call an image `1img` and its label `1lbl`."""
    return re.sub(r"(?<=.)[_-]?(img|image|lbl|label)s?$", "", stem(file))
