"""Find the cases in a data folder: one module per layout, and its line in the table."""

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Protocol, runtime_checkable

from segpl.data.cases import Case, Dataset, check_task, with_readable_names
from segpl.data.layouts import brats, carve, decathlon, drive, manifest, nnunet, paper, plain
from segpl.data.layouts.plain.description import description_file
from segpl.data.reviews import with_reviews
from segpl.foundation.errors import UserError


@runtime_checkable
class Layout(Protocol):
    """What the module of a layout offers."""

    NAME: str
    DESCRIPTION: str
    """The contents of such a folder in a few words."""
    TREE: str
    """A small example of such a folder, with the files of a subfolder on its line."""

    def recognises(self, folder: Path) -> bool:
        """Whether the folder looks like this layout. `read` checks whether it is complete."""

    def read(self, folder: Path) -> Dataset:
        """The dataset in the folder."""


LAYOUTS: tuple[Layout, ...] = (
    decathlon,
    nnunet,
    manifest,
    paper,
    brats,
    drive,
    carve,
    plain,
)
"""In the order in which they are tried: descriptions come before guesses from file names."""

LAYOUTS_WITH_LABELS_FOLDER = (decathlon.NAME, nnunet.NAME)
"""Those whose training images are in `imagesTr` and their labels in `labelsTr`."""


class UnknownLayoutError(UserError):
    """No layout recognises the folder."""


def read_dataset(folder: Path) -> Dataset:
    """The dataset in `folder`, or in a manifest file, whatever its layout.

    Labels reviewed in `segpl view` are part of it, and rejected scans are not.
    """
    return with_reviews(read_originals(folder))


def read_originals(folder: Path) -> Dataset:
    """The dataset as its layout describes it, whatever was reviewed since."""
    if not folder.is_dir() and not manifest.recognises(folder):
        raise UserError(
            f"{folder} is not a folder: give the folder that holds dataset.json and imagesTr."
        )
    dataset = _layout_of(folder).read(folder)
    dataset = replace(
        dataset,
        training=with_readable_names(dataset.training),
        test=with_readable_names(dataset.test),
    )
    _check(dataset)
    check_task(dataset.task, dataset.folder)
    return dataset


def _layout_of(folder: Path) -> Layout:
    """The layout of a folder; one with a `segpl.yaml` is always a plain folder."""
    if description_file(folder).is_file():
        return plain
    for layout in LAYOUTS:
        if layout.recognises(folder):
            return layout
    known = [f"{layout.NAME} ({layout.DESCRIPTION})" for layout in LAYOUTS]
    raise UnknownLayoutError(
        f"{folder} has no dataset.json and no other layout that segpl knows: "
        f"arrange it as one of {'; '.join(known)}."
    )


def _check(dataset: Dataset) -> None:
    """Raise an error if there is no case, or if two cases have the same name.

    Masks and scores are stored under the name of the case.
    """
    cases_by_name: dict[str, Case] = {}
    for case in chain(dataset.training, dataset.test):
        if case.name in cases_by_name:
            first = cases_by_name[case.name].images[0]
            second = case.images[0]
            raise UserError(
                f"{first} and {second} are both case {case.name}: rename or remove one of them."
            )
        cases_by_name[case.name] = case
    if not cases_by_name:
        raise UserError(
            f"{dataset.folder} looks like {dataset.layout} but holds no image: add some."
        )
