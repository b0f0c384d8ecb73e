"""The layout of the Medical Segmentation Decathlon, and of nnU-Net v1.

`dataset.json` with `modality`, and one file per case in `imagesTr`, which may be 4D.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from segpl.data.cases import Cases, Dataset, Region, Task
from segpl.data.formats import stem
from segpl.data.layouts import nnunet
from segpl.data.layouts.pairing import images_in, pair
from segpl.foundation.errors import UserError

NAME = "Decathlon"
DESCRIPTION = "dataset.json with modality, imagesTr and labelsTr with files of the same names"
TREE = """
dataset.json                             (with "modality" and "labels")
imagesTr/   anna.nii.gz   ben.nii.gz     (several channels: 4D files)
labelsTr/   anna.nii.gz
imagesTs/   carl.nii.gz                  (optional)
labelsTs/   carl.nii.gz                  (optional)
"""


@dataclass(frozen=True)
class Description:
    """The entries of the Decathlon's `dataset.json` that segpl uses."""

    modality: dict[int, str]
    labels: dict[int, str]
    training: list[Any] = field(default_factory=list)
    test: list[Any] = field(default_factory=list)
    subjects: dict[str, str] = field(default_factory=dict)
    """Our addition, as in the nnU-Net layout."""


def recognises(folder: Path) -> bool:
    """Whether `dataset.json` names modalities; nnU-Net v2 names channels instead."""
    file = folder / "dataset.json"
    if not file.is_file():
        return False
    try:
        content = nnunet.read_object(file)
    except UserError:  # the nnU-Net layout is tried next and reports what is wrong with the file
        return False
    return "modality" in content and "channel_names" not in content


def read(folder: Path) -> Dataset:
    """The dataset in `folder`; images without a label are unlabelled training images."""
    file = folder / "dataset.json"
    description: Description = nnunet.read_description(Description, file)
    _check_listed_files(folder, description)
    channels = tuple(name for _, name in sorted(description.modality.items()))
    regions = _regions(description, file)
    labelled_folder = _cases(folder, "Tr", description)
    unlabelled_folder = _cases(folder, "Un", description)
    training = labelled_folder + unlabelled_folder
    test = _cases(folder, "Ts", description)
    if not training and not test:
        raise UserError(f"{folder} holds no image: put some into imagesTr.")
    task = Task(channels, regions)
    return Dataset(folder=folder, task=task, training=training, test=test, layout=NAME)


def _regions(description: Description, file: Path) -> tuple[Region, ...]:
    regions = []
    for value, name in sorted(description.labels.items()):
        if value != 0:
            regions.append(Region(name, (value,), value))
    if not regions or not description.modality:
        raise UserError(
            f"{file} must name at least one modality and one label other than 0: add them."
        )
    return tuple(regions)


def _cases(folder: Path, subset: str, description: Description) -> Cases:
    """The cases of `imagesTr`, `imagesUn` or `imagesTs`; `subset` is Tr, Un or Ts."""
    if _has_channel_numbers(folder):
        return nnunet.numbered_cases(folder, subset, _as_nnunet(folder, description))
    images = images_in(folder / f"images{subset}")
    labels = images_in(folder / f"labels{subset}")
    cases = []
    for case in pair(images, labels):
        subject = description.subjects.get(case.name, case.name)
        cases.append(replace(case, subject=subject))
    return tuple(cases)


def _has_channel_numbers(folder: Path) -> bool:
    """Whether this is the variant of nnU-Net v1, where label `a` belongs to image `a_0000`."""
    images = {stem(file) for file in images_in(folder / "imagesTr")}
    labels = {stem(file) for file in images_in(folder / "labelsTr")}
    first_channels = {f"{label}_0000" for label in labels}
    if not labels or labels & images:
        return False
    return first_channels <= images


def _as_nnunet(folder: Path, description: Description) -> nnunet.Description:
    """The same description in the terms of nnU-Net v2, as far as finding cases needs it."""
    label = images_in(folder / "labelsTr")[0]
    channel_names = {str(number): name for number, name in description.modality.items()}
    file_ending = label.name.removeprefix(stem(label))
    return nnunet.Description(channel_names, {}, file_ending, subjects=description.subjects)


def _check_listed_files(folder: Path, description: Description) -> None:
    """Raise an error if a file that `dataset.json` lists does not exist.

    nnU-Net v1 lists images without their channel numbers.
    """
    for entry in (*description.training, *description.test):
        names = entry.values() if isinstance(entry, dict) else [entry]
        for name in names:
            file = folder / str(name)
            first_channel = file.with_name(file.name.replace(".", "_0000.", 1))
            if not file.exists() and not first_channel.exists():
                raise UserError(
                    f"{file} is missing: dataset.json lists it, so add it or take it off the list."
                )
