"""The nnU-Net v2 layout: `dataset.json`, `imagesTr`, `labelsTr`, `imagesTs`, `labelsTs`, and our `imagesUn`."""

import json
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from segpl.data.cases import Case, Dataset, Region, Task
from segpl.foundation.errors import UserError
from segpl.foundation.named import validated

NAME = "nnU-Net"
DESCRIPTION = "dataset.json with channel_names, imagesTr with channel numbers as in case_0000.nii.gz, labelsTr"


@dataclass(frozen=True)
class Description:
    """What segpl reads of a `dataset.json`."""

    channel_names: dict[str, str]
    labels: dict[str, int | list[int]]
    file_ending: str
    regions_class_order: list[int] = field(default_factory=list)
    subjects: dict[str, str] = field(default_factory=dict)
    """Our addition: the subject of a case, where several cases are of one subject; otherwise each case is its own."""


def recognises(folder: Path) -> bool:
    """Any `dataset.json`, even a broken one: `read` then says what is wrong with it."""
    return (folder / "dataset.json").is_file()


def read(folder: Path) -> Dataset:
    """The data set in `folder`; images of `imagesTr` or `imagesUn` without a label are unlabelled training images."""
    file = folder / "dataset.json"
    description = _description(file)
    task = Task(_in_order(description.channel_names, file), _regions(description, file))
    training = numbered_cases(folder, "Tr", description) + numbered_cases(folder, "Un", description)
    test = numbered_cases(folder, "Ts", description)
    if not training and not test:
        raise UserError(
            f"{folder} holds no image that ends in {description.file_ending}: put some into imagesTr."
        )
    return Dataset(folder, task, training, test, layout=NAME)


def _in_order(channels: dict[str, str], file: Path) -> tuple[str, ...]:
    """The names of the channels in the order of their numbers, which need not be that of the file."""
    numbers = [str(number) for number in range(len(channels))]
    if set(channels) != set(numbers):
        raise UserError(
            f"{file}: the channels are numbered {', '.join(channels)}: number them 0, 1 and so on."
        )
    return tuple(channels[number] for number in numbers)


def contents(file: Path) -> dict[str, Any]:
    """The object in a `dataset.json`."""
    try:
        found = json.loads(file.read_text(encoding="utf-8-sig"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is not valid JSON ({error}): mend it.") from None
    if not isinstance(found, dict):
        raise UserError(
            f"{file} must hold an object with channel_names, labels and file_ending, as nnU-Net v2 has it."
        )
    return found


def described(kind: type[Any], file: Path) -> Any:
    """What this kind of description takes of a `dataset.json`; the rest is for other tools."""
    found = contents(file)
    known = {each.name: found[each.name] for each in fields(kind) if each.name in found}
    return validated(kind, known, f"{file}: ")


def _description(file: Path) -> Description:
    description: Description = described(Description, file)
    if not description.channel_names:
        raise UserError(f"{file}: channel_names is empty: name at least one channel.")
    if not description.file_ending.startswith("."):
        raise UserError(
            f"{file}: file_ending is {description.file_ending!r}: begin it with a dot, as in .nii.gz."
        )
    return description


def _regions(description: Description, file: Path) -> tuple[Region, ...]:
    values = {
        name: tuple(value) if isinstance(value, list) else (value,)
        for name, value in description.labels.items()
        if name != "background"
    }
    if "ignore" in values:
        raise UserError(f'{file} has an "ignore" label, which segpl does not take: remove it.')
    wrong = [name for name, value in values.items() if not value or 0 in value]
    if not values or wrong:
        name = wrong[0] if wrong else "labels"
        raise UserError(
            f"{file}: {name} names no value of its own: give every region values other than 0."
        )
    paint = description.regions_class_order or [value[0] for value in values.values()]
    if len(paint) != len(values):
        raise UserError(
            f"{file} has {len(values)} regions but {len(paint)} values in regions_class_order: match them."
        )
    if len(set(paint)) < len(paint):
        raise UserError(
            f"{file}: regions that overlap must be told apart in a mask: give regions_class_order, one value for each."
        )
    return tuple(
        Region(name, value, shown)
        for (name, value), shown in zip(values.items(), paint, strict=True)
    )


def numbered_cases(folder: Path, part: str, description: Description) -> tuple[Case, ...]:
    """The cases of `imagesTr`, `imagesUn` or `imagesTs`, by name; their files carry a channel number."""
    images, labels = folder / f"images{part}", folder / f"labels{part}"
    ending, channels = description.file_ending, len(description.channel_names)
    found = _channel_files(images, ending)
    cases = []
    for name, files in found.items():
        wanted = tuple(images / f"{name}_{channel:04d}{ending}" for channel in range(channels))
        for file in (*wanted, *files):
            if file not in files:
                raise UserError(
                    f"{file} is missing: dataset.json names {channels} channels, so add it."
                )
            if file not in wanted:
                raise UserError(
                    f"{file} is one channel too many: dataset.json names {channels}, so remove or name it."
                )
        label = labels / f"{name}{ending}"
        cases.append(
            Case(
                name,
                description.subjects.get(name, name),
                wanted,
                label if label.is_file() else None,
            )
        )
    for label in _visible(labels, ending):
        if label.name.removesuffix(ending) not in found:
            raise UserError(f"{label} has no image in {images}: add the image or remove the label.")
    return tuple(cases)


def _channel_files(images: Path, ending: str) -> dict[str, list[Path]]:
    """The files of each case."""
    found: dict[str, list[Path]] = {}
    for file in _visible(images, ending):
        stem = file.name.removesuffix(ending)
        if not re.fullmatch(r".+_\d{4}", stem):
            raise UserError(f"{file} has no channel number: name it {stem}_0000{ending}.")
        found.setdefault(stem[:-5], []).append(file)
    return found


def _visible(folder: Path, ending: str) -> list[Path]:
    """The files of a folder, without the hidden ones that some systems leave behind."""
    return sorted(file for file in folder.glob(f"*{ending}") if not file.name.startswith("."))
