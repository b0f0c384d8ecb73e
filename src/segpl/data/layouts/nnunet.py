"""The nnU-Net v2 layout.

`dataset.json`, `imagesTr`, `labelsTr`, `imagesTs`, `labelsTs`, and our addition `imagesUn` for
unlabelled training images.
"""

import re
from collections.abc import Container
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from segpl.data.cases import Case, Cases, Dataset, Region, Task
from segpl.data.layouts.pairing import visible
from segpl.foundation.errors import UserError
from segpl.foundation.named import validated
from segpl.foundation.plain_files import read_json

NAME = "nnU-Net"
DESCRIPTION = (
    "dataset.json with channel_names, imagesTr with channel numbers as in case_0000.nii.gz, "
    "labelsTr"
)
TREE = """
dataset.json                                          (with "channel_names" and "labels")
imagesTr/   anna_0000.nii.gz   anna_0001.nii.gz   ben_0000.nii.gz   ben_0001.nii.gz
labelsTr/   anna.nii.gz
imagesUn/   dora_0000.nii.gz   dora_0001.nii.gz       (optional)
imagesTs/   carl_0000.nii.gz   carl_0001.nii.gz       (optional)
labelsTs/   carl.nii.gz                               (optional)
"""

IGNORE = "ignore"
"""The name of the label whose voxels do not count."""

RegionValues = dict[str, tuple[int, ...]]
"""The label values of each region, by its name."""


@dataclass(frozen=True)
class Description:
    """The entries of `dataset.json` that segpl uses."""

    channel_names: dict[str, str]
    labels: dict[str, int | list[int]]
    file_ending: str
    regions_class_order: list[int] = field(default_factory=list)
    subjects: dict[str, str] = field(default_factory=dict)
    """Our addition: the subject of a case. A case that is not listed is its own subject."""


def recognises(folder: Path) -> bool:
    """Whether there is a `dataset.json`, even a broken one: `read` says what is wrong with it."""
    return (folder / "dataset.json").is_file()


def read(folder: Path) -> Dataset:
    """The dataset in `folder`.

    Images of `imagesTr` or `imagesUn` without a label are unlabelled training images.
    """
    file = folder / "dataset.json"
    description = _read_checked_description(file)
    channels = _channels(description.channel_names, file)
    regions = _regions(description, file)
    labelled_folder = numbered_cases(folder, "Tr", description)
    unlabelled_folder = numbered_cases(folder, "Un", description)
    training = labelled_folder + unlabelled_folder
    test = numbered_cases(folder, "Ts", description)
    if not training and not test:
        raise UserError(
            f"{folder} holds no image that ends in {description.file_ending}: "
            "put some into imagesTr."
        )
    task = Task(channels, regions, _ignored_value(description, file))
    return Dataset(folder=folder, task=task, training=training, test=test, layout=NAME)


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object in a `dataset.json`."""
    try:
        content = read_json(file)
    except ValueError as error:
        raise UserError(f"{file} is not valid JSON ({error}): correct it.") from None
    if not isinstance(content, dict):
        raise UserError(
            f"{file} is not a JSON object: write an object with channel_names, labels and "
            "file_ending, as for nnU-Net v2."
        )
    return content


def read_description(description_type: type[Any], file: Path) -> Any:
    """The entries of a `dataset.json` that are fields of `description_type`, as an instance of it.

    All other entries are for other tools and ignored.
    """
    content = read_object(file)
    names = [entry.name for entry in fields(description_type)]
    known = {name: content[name] for name in names if name in content}
    return validated(description_type, known, f"{file}: ")


def _read_checked_description(file: Path) -> Description:
    description: Description = read_description(Description, file)
    if not description.channel_names:
        raise UserError(f"{file}: channel_names is empty: name at least one channel.")
    ending = description.file_ending
    if not ending.startswith("."):
        raise UserError(f"{file}: file_ending is {ending!r}: start it with a dot, as in .nii.gz.")
    return description


def _channels(channel_names: dict[str, str], file: Path) -> tuple[str, ...]:
    """The channel names in the order of their numbers; the file may list them in another order."""
    numbers = [str(number) for number in range(len(channel_names))]
    if set(channel_names) != set(numbers):
        raise UserError(
            f"{file}: the channels are numbered {', '.join(channel_names)}: "
            "number them 0, 1 and so on."
        )
    return tuple(channel_names[number] for number in numbers)


def _ignored_value(description: Description, file: Path) -> int | None:
    """The value of the label "ignore", which nnU-Net does not count either; None without one."""
    value = description.labels.get(IGNORE)
    if value is None or isinstance(value, int):
        return value
    raise UserError(f'{file}: the label "{IGNORE}" has several values: give it one.')


def _regions(description: Description, file: Path) -> tuple[Region, ...]:
    values_by_name = _region_values(description, file)
    paints = _paint_values(description, values_by_name, file)
    regions = []
    for (name, values), paint in zip(values_by_name.items(), paints, strict=True):
        regions.append(Region(name, values, paint))
    return tuple(regions)


def _region_values(description: Description, file: Path) -> RegionValues:
    """The label values of each region, by its name."""
    values_by_name: RegionValues = {}
    for name, values in description.labels.items():
        if isinstance(values, int):
            values = [values]
        if name != "background":
            values_by_name[name] = tuple(values)
    values_by_name.pop(IGNORE, None)
    if not values_by_name:
        raise UserError(f"{file}: labels names no region: add one with a value other than 0.")
    for name, region_values in values_by_name.items():
        if not region_values or 0 in region_values:
            raise UserError(
                f"{file}: label {name} has no value, or the value 0 of the background: "
                "give it values other than 0."
            )
    return values_by_name


def _paint_values(description: Description, values_by_name: RegionValues, file: Path) -> list[int]:
    """The value that stands for each region in a label map; all must differ."""
    paints = description.regions_class_order
    if not paints:
        paints = [values[0] for values in values_by_name.values()]
    if len(paints) != len(values_by_name):
        raise UserError(
            f"{file} has {len(values_by_name)} regions but {len(paints)} values in "
            "regions_class_order: give one value for each region."
        )
    if len(set(paints)) < len(paints):
        raise UserError(
            f"{file} has two regions with the same value in a mask: "
            "give regions_class_order, with a different value for each region."
        )
    return paints


def numbered_cases(folder: Path, subset: str, description: Description) -> Cases:
    """The cases of `imagesTr`, `imagesUn` or `imagesTs`, whose files carry a channel number.

    `subset` is Tr, Un or Ts.
    """
    images = folder / f"images{subset}"
    labels = folder / f"labels{subset}"
    ending = description.file_ending
    channel_numbers = range(len(description.channel_names))
    files_by_case = _files_by_case(images, ending)
    cases = []
    for name, files in files_by_case.items():
        expected = tuple(channel_file(images, name, number, ending) for number in channel_numbers)
        _check_channels(files, expected)
        subject = description.subjects.get(name, name)
        label_file = labels / f"{name}{ending}"
        label = label_file if label_file.is_file() else None
        cases.append(Case(name, subject, expected, label))
    _check_labels(labels, images, ending, files_by_case)
    return tuple(cases)


def channel_file(images: Path, case: str, number: int, ending: str) -> Path:
    """The file of one channel, such as `imagesTr/case_0000.nii.gz`."""
    return images / f"{case}_{number:04d}{ending}"


def _files_by_case(images: Path, ending: str) -> dict[str, list[Path]]:
    """The files of each case, by the name of the case."""
    files_by_case: dict[str, list[Path]] = {}
    for file in visible(images.glob(f"*{ending}")):
        stem = file.name.removesuffix(ending)
        match = re.fullmatch(r"(.+)_\d{4}", stem, re.DOTALL)
        if match is None:
            raise UserError(f"{file} has no channel number: name it {stem}_0000{ending}.")
        case = match[1]
        files_by_case.setdefault(case, []).append(file)
    return files_by_case


def _check_channels(files: list[Path], expected: tuple[Path, ...]) -> None:
    """Raise an error if a channel of a case is missing, or if there is one too many."""
    channels = len(expected)
    for file in expected:
        if file not in files:
            raise UserError(
                f"{file} is missing: dataset.json names {channels} channels, so add the file."
            )
    for file in files:
        if file not in expected:
            raise UserError(
                f"{file} is one channel too many: dataset.json names {channels} channels, "
                "so remove the file or name its channel there."
            )


def _check_labels(labels: Path, images: Path, ending: str, cases: Container[str]) -> None:
    """Raise an error if a label has no image."""
    for label in visible(labels.glob(f"*{ending}")):
        if label.name.removesuffix(ending) not in cases:
            raise UserError(f"{label} has no image in {images}: add the image or remove the label.")
