"""The Decathlon layout, and nnU-Net v1's: `dataset.json` with `modality`, one file a case in `imagesTr`, perhaps 4D."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from segpl.data.cases import Case, Dataset, Region, Task
from segpl.data.formats import stem
from segpl.data.layouts import nnunet
from segpl.data.layouts.pairing import images_in, pair
from segpl.foundation.errors import UserError

NAME = "Decathlon"
DESCRIPTION = "dataset.json with modality, imagesTr and labelsTr with files of the same names"


@dataclass(frozen=True)
class Description:
    """What segpl reads of a `dataset.json` of the Decathlon."""

    modality: dict[int, str]
    labels: dict[int, str]
    training: list[Any] = field(default_factory=list)
    test: list[Any] = field(default_factory=list)
    subjects: dict[str, str] = field(default_factory=dict)
    """Our addition, as in nnU-Net's layout."""


def recognises(folder: Path) -> bool:
    """A `dataset.json` that names modalities, as nnU-Net v2 no longer does."""
    file = folder / "dataset.json"
    try:
        return (
            file.is_file()
            and "modality" in (found := nnunet.contents(file))
            and "channel_names" not in found
        )
    except UserError:  # nnU-Net's layout says what is wrong with it
        return False


def read(folder: Path) -> Dataset:
    """The data set in `folder`; images without a label are unlabelled training images."""
    file = folder / "dataset.json"
    description: Description = nnunet.described(Description, file)
    _check_lists(folder, description)
    task = Task(
        tuple(name for _, name in sorted(description.modality.items())), _regions(description, file)
    )
    training = _cases(folder, "Tr", description) + _cases(folder, "Un", description)
    test = _cases(folder, "Ts", description)
    if not training and not test:
        raise UserError(f"{folder} holds no image: put some into imagesTr.")
    return Dataset(folder, task, training, test, layout=NAME)


def _regions(description: Description, file: Path) -> tuple[Region, ...]:
    regions = tuple(
        Region(name, (value,), value) for value, name in sorted(description.labels.items()) if value
    )
    if not regions or not description.modality:
        raise UserError(
            f"{file} must name at least one modality and one label other than 0: add them."
        )
    return regions


def _cases(folder: Path, part: str, description: Description) -> tuple[Case, ...]:
    if _numbered(folder):
        return nnunet.numbered_cases(folder, part, _as_nnunet(folder, description))
    cases = pair(images_in(folder / f"images{part}"), images_in(folder / f"labels{part}"))
    return tuple(
        replace(case, subject=description.subjects.get(case.name, case.name)) for case in cases
    )


def _numbered(folder: Path) -> bool:
    """Whether this is nnU-Net v1's variety: label `a` is of image `a_0000`."""
    images = {stem(file) for file in images_in(folder / "imagesTr")}
    labels = {stem(file) for file in images_in(folder / "labelsTr")}
    return bool(labels) and not labels & images and {f"{label}_0000" for label in labels} <= images


def _as_nnunet(folder: Path, description: Description) -> nnunet.Description:
    label = images_in(folder / "labelsTr")[0]
    channels = {str(number): name for number, name in description.modality.items()}
    return nnunet.Description(
        channels, {}, label.name.removeprefix(stem(label)), [], description.subjects
    )


def _check_lists(folder: Path, description: Description) -> None:
    """Whatever the description lists must be there; nnU-Net v1 lists images without their channel numbers."""
    for entry in (*description.training, *description.test):
        for name in entry.values() if isinstance(entry, dict) else [entry]:
            file = folder / str(name)
            numbered = file.with_name(file.name.replace(".", "_0000.", 1))
            if not file.exists() and not numbered.exists():  # a DICOM series is a folder
                raise UserError(
                    f"{file} is missing: dataset.json lists it, so add it or take it off the list."
                )
