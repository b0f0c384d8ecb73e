"""`segpl.yaml`: an optional description of a plain folder. Whatever it leaves out is guessed."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import yaml
from pydantic import ConfigDict

from segpl.data.cases import Region
from segpl.foundation.errors import UserError
from segpl.foundation.named import validated

FILE = "segpl.yaml"

EACH_FILE = "file"
"""The value of `subjects` for folders in which every case is a patient of its own."""


@dataclass(frozen=True)
class Description:
    """The entries of `segpl.yaml`; all are optional."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    regions: dict[str, int | list[int]] = field(default_factory=dict)
    """The label values of each region, by its name."""
    ignore: int | None = None
    """The label value of voxels that no loss and no score counts; 255 unless a region has it."""
    channels: list[str | int] | dict[str, str | int] | None = None
    """The endings of the image names, such as t1 for a_t1.nii.gz; or the endings by channel name.

    An empty list says that each image is a case of its own.
    """
    image_folder: str | None = None
    label_folder: str | None = None
    label_suffix: str | None = None
    """The end of the names of labels, such as _seg. Other labels are ignored."""
    subjects: str | dict[str, str] | None = None
    """`file`, a regular expression whose group is the subject, or the subject of each case."""
    skip: list[str] = field(default_factory=list)
    """Patterns of files to leave out, such as *_4d.nii.gz."""


def description_file(folder: Path) -> Path:
    """Where the description of a folder is, if there is one."""
    return folder / FILE


def read_description(folder: Path) -> Description:
    """The description of a folder; an empty one if the folder has none."""
    file = description_file(folder)
    if not file.is_file():
        return Description()
    content = _read_mapping(file)
    description: Description = validated(Description, content, f"{file}: ")
    _check_region_values(file, description)
    _check_subjects(file, description)
    _check_folders(folder, file, description)
    return description


def _read_mapping(file: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{file} is not valid YAML ({reason}): correct it.") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UserError(f"{file} must hold entries such as `label_folder: masks`, one per line.")
    return content


def _check_region_values(file: Path, description: Description) -> None:
    for name, values in description.regions.items():
        if not _as_values(values) or 0 in _as_values(values):
            raise UserError(
                f"{file}: region {name} has no value, or the value 0 of the background: "
                "give it values other than 0."
            )


def _check_subjects(file: Path, description: Description) -> None:
    pattern = description.subjects
    if not isinstance(pattern, str) or pattern == EACH_FILE:
        return
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise UserError(
            f"{file}: subjects is {pattern!r}, which is no regular expression ({error}): "
            "correct it."
        ) from None
    if groups != 1:
        raise UserError(
            f"{file}: subjects is {pattern!r}, which has {groups} groups: write `file`, or a "
            "regular expression with one group that is the subject, such as '([^_]+)_.*'."
        )


def _check_folders(folder: Path, file: Path, description: Description) -> None:
    for key in ("image_folder", "label_folder"):
        name = getattr(description, key)
        if name is None:
            continue
        candidates = [folder / name, *folder.glob(f"*/{name}")]
        if not any(candidate.is_dir() for candidate in candidates):
            raise UserError(
                f"{file}: {key} is {name}, but {folder / name} is not a folder: correct the name."
            )


def channel_suffixes(description: Description) -> dict[str, str] | None:
    """The ending of the image names for each channel; None if the description names no channel."""
    channels = description.channels
    if channels is None:
        return None
    if isinstance(channels, dict):
        return {name: _as_suffix(suffix) for name, suffix in channels.items()}
    suffixes = [_as_suffix(suffix) for suffix in channels]
    return {suffix: suffix for suffix in suffixes}


def _as_suffix(suffix: str | int) -> str:
    """The ending without its separator. YAML reads 0001 as a number: it is a channel number."""
    if isinstance(suffix, int):
        return f"{suffix:04d}"
    return suffix.strip("_-. ")


def regions(description: Description) -> tuple[Region, ...]:
    """The described regions in painting order, the one with the most values first.

    A region is painted with a value of its own, so that a mask holds the values of the labels
    wherever possible.
    """
    values_by_name = {}
    for name, values in description.regions.items():
        values_by_name[name] = _as_values(values)
    largest_first = sorted(values_by_name, key=lambda name: -len(values_by_name[name]))
    paint_by_name: dict[str, int] = {}
    for name in reversed(largest_first):
        used = set(paint_by_name.values())
        paint_by_name[name] = _paint(values_by_name[name], used)
    return tuple(Region(name, values_by_name[name], paint_by_name[name]) for name in largest_first)


def _as_values(values: int | list[int]) -> tuple[int, ...]:
    return (values,) if isinstance(values, int) else tuple(values)


def _paint(values: tuple[int, ...], used: set[int]) -> int:
    """The first of the values that is not used; the next number if all are."""
    for value in values:
        if value not in used:
            return value
    return max(used) + 1
