"""How folders become cases: one small file per layout, and its line in the table."""

from itertools import chain
from pathlib import Path
from typing import Protocol

from segpl.data.cases import Case, Dataset
from segpl.data.layouts import brats, carve, decathlon, drive, manifest, nnunet, paper
from segpl.foundation.errors import UserError


class Layout(Protocol):
    """What the file of a layout offers."""

    NAME: str
    DESCRIPTION: str
    """What a folder of this layout holds, in a few words."""

    def recognises(self, folder: Path) -> bool:
        """Whether the folder looks like this layout; whether it is complete is for `read` to say."""

    def read(self, folder: Path) -> Dataset:
        """The data set in the folder."""


LAYOUTS: tuple[Layout, ...] = (
    decathlon,
    nnunet,
    manifest,
    paper,
    brats,
    drive,
    carve,
)
"""Tried in this order: what a user wrote down goes before what is guessed from names."""


def read_dataset(folder: Path) -> Dataset:
    """The data set in `folder`, or in a manifest file, whichever layout it has."""
    if not folder.is_dir() and not manifest.recognises(folder):
        raise UserError(
            f"{folder} is not a folder: give the folder that holds dataset.json and imagesTr."
        )
    for layout in LAYOUTS:
        if layout.recognises(folder):
            dataset = layout.read(folder)
            _check(dataset)
            return dataset
    known = "; ".join(f"{layout.NAME} ({layout.DESCRIPTION})" for layout in LAYOUTS)
    raise UserError(
        f"{folder} has no dataset.json and fits no other layout either: arrange it as one of {known}."
    )


def _check(dataset: Dataset) -> None:
    """Masks and scores are filed by the name of the case, so it must be the only one."""
    seen: dict[str, Case] = {}
    for case in chain(dataset.training, dataset.test):
        if case.name in seen:
            first, second = seen[case.name].images[0], case.images[0]
            raise UserError(
                f"{first} and {second} are both case {case.name}: rename or remove one of them."
            )
        seen[case.name] = case
    if not seen:
        raise UserError(
            f"{dataset.folder} looks like {dataset.layout} but holds no image: add some."
        )
