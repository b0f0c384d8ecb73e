"""The layout of the paper's code: `labelled/imgs`, `labelled/lbls`, `unlabelled/imgs`, `test/imgs`, `test/lbls`."""

import re
from pathlib import Path

from segpl.data.cases import Case, Dataset
from segpl.data.formats import stem
from segpl.data.layouts.contents import task_of
from segpl.data.layouts.pairing import images_in, pair

NAME = "the paper's code"
DESCRIPTION = "labelled/imgs, labelled/lbls, unlabelled/imgs, test/imgs, test/lbls"


def recognises(folder: Path) -> bool:
    """Labelled images in their own folder."""
    return (folder / "labelled" / "imgs").is_dir()


def read(folder: Path) -> Dataset:
    """The data set in `folder`; its validation cases, if any, count among those that we choose ours from."""
    training = tuple(
        case for part in ("labelled", "validation", "unlabelled") for case in _cases(folder / part)
    )
    test = _cases(folder / "test")
    return Dataset(folder, task_of(folder, training, test), training, test, layout=NAME)


def _cases(part: Path) -> tuple[Case, ...]:
    return pair(images_in(part / "imgs"), images_in(part / "lbls"), _key)


def _key(file: Path) -> str:
    """The authors also call an image `1img` and its label `1lbl`."""
    return re.sub(r"(?<=.)[_-]?(img|image|lbl|label)s?$", "", stem(file))
