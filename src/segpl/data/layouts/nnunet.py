"""The nnU-Net v2 layout: `dataset.json`, `imagesTr`, `labelsTr`, `imagesTs`, `labelsTs`, and our `imagesUn`."""

import json
from pathlib import Path
from typing import Any

from segpl.data.cases import Case, Dataset, Region
from segpl.errors import UserError


def read_nnunet(folder: Path) -> Dataset:
    """The data set in `folder`; images of `imagesTr` or `imagesUn` without a label are unlabelled training images."""
    description = _description(folder / "dataset.json")
    ending, channels = description["file_ending"], tuple(description["channel_names"].values())
    training = _cases(folder, "Tr", ending, len(channels)) + _cases(folder, "Un", ending, len(channels))
    if not training:
        raise UserError(f"{folder / 'imagesTr'} holds no image that ends in {ending}: put the training images there.")
    test = _cases(folder, "Ts", ending, len(channels))
    return Dataset(folder, channels, _regions(description, folder), training, test)


def _description(file: Path) -> dict[str, Any]:
    try:
        description = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is not valid JSON ({error}): mend it.") from None
    for key in ("channel_names", "labels", "file_ending"):
        if key not in description:
            raise UserError(f'{file} has no "{key}": add it as nnU-Net v2 describes.')
    return description


def _regions(description: dict[str, Any], folder: Path) -> tuple[Region, ...]:
    values = {
        name: tuple(value) if isinstance(value, list) else (value,)
        for name, value in description["labels"].items()
        if name != "background"
    }
    if "ignore" in values:
        raise UserError(f'{folder / "dataset.json"} has an "ignore" label, which segpl does not take: remove it.')
    paint = description.get("regions_class_order") or [value[0] for value in values.values()]
    if len(paint) != len(values):
        raise UserError(
            f'{folder / "dataset.json"} names {len(values)} regions but {len(paint)} values in "regions_class_order": '
            "give one value for each region."
        )
    return tuple(Region(name, value, shown) for (name, value), shown in zip(values.items(), paint, strict=True))


def _cases(folder: Path, part: str, ending: str, channels: int) -> tuple[Case, ...]:
    """The cases of `imagesTr`, `imagesUn` or `imagesTs`, by name."""
    images, labels = folder / f"images{part}", folder / f"labels{part}"
    stems = {file.name.removesuffix(ending) for file in images.glob(f"*{ending}")}
    names = sorted({stem.rpartition("_")[0] for stem in stems})
    cases = []
    for name in names:
        files = tuple(images / f"{name}_{channel:04d}{ending}" for channel in range(channels))
        for file in files:
            if not file.is_file():
                raise UserError(f"{file} is missing: {name} needs {channels} channels, {name}_0000{ending} and so on.")
        label = labels / f"{name}{ending}"
        cases.append(Case(name, name, files, label if label.is_file() else None))
    for label in sorted(labels.glob(f"*{ending}")):
        if label.name.removesuffix(ending) not in names:
            raise UserError(f"{label} has no image in {images}: add the image or remove the label.")
    return tuple(cases)
