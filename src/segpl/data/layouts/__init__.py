"""How folders become cases: one small file per layout."""

from pathlib import Path

from segpl.data.cases import Dataset
from segpl.data.layouts.nnunet import read_nnunet
from segpl.errors import UserError


def read_dataset(folder: Path) -> Dataset:
    """The data set in `folder`, whichever layout it has."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: give the folder that holds dataset.json and imagesTr.")
    if (folder / "dataset.json").is_file():
        return read_nnunet(folder)
    raise UserError(f"{folder} has no dataset.json: segpl reads the nnU-Net layout (dataset.json, imagesTr, labelsTr).")
