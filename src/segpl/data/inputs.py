"""Find the scans that a user names: files, folders and DICOM series become cases."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from segpl.data.cases import Case, Cases, Task, with_readable_names
from segpl.data.formats import is_image, stem
from segpl.data.layouts import LAYOUTS, read_dataset
from segpl.data.layouts.pairing import images_in
from segpl.foundation.errors import UserError


def find_cases(inputs: Sequence[Path], task: Task) -> Cases:
    """The cases in `inputs`, without labels.

    A folder is one of these, in this order:
    - a DICOM series;
    - channels with their names (`a_flair.nii.gz`), perhaps one folder per case;
    - a data folder of any layout, of which all images count;
    - images, one per case or with channel numbers (`a_0000.nii.gz`).
    Files are treated like the files of a folder. Whether the images can be read and have the right
    channels is checked when they are read.
    """
    cases: list[Case] = []
    files: list[Path] = []
    for path in inputs:
        if not path.is_dir():
            files.append(path)
        elif is_image(path):
            files.append(path.resolve())
        else:
            cases += _cases_in_folder(path.resolve(), task)
    cases += _group_channels(files, task)
    return _without_repetitions(with_readable_names(cases))


def _without_repetitions(cases: Iterable[Case]) -> Cases:
    """Each case once; an error if two different scans have the same name."""
    cases_by_name: dict[str, Case] = {}
    for case in cases:
        first = cases_by_name.setdefault(case.name, case)
        if first.images != case.images:
            both = f"{first.images[0]} and {case.images[0]}"
            raise UserError(f"{both} are both called {case.name}: rename one of them.")
    return tuple(cases_by_name.values())


def _cases_in_folder(folder: Path, task: Task) -> list[Case]:
    named_channels = _files_with_channel_names(folder, task)
    if named_channels:  # other images beside them are labels
        return _group_channels(named_channels, task)
    if any(layout.recognises(folder) for layout in LAYOUTS):
        dataset = read_dataset(folder)
        return [case.unlabelled() for case in dataset.training + dataset.test]
    images = images_in(folder)
    if not images:
        raise UserError(
            f"{folder} holds no image: give image files, a folder of them, or a DICOM series."
        )
    return _group_channels(images, task)


def _files_with_channel_names(folder: Path, task: Task) -> list[Path]:
    """The images below `folder` that are named after a channel of the task."""
    if len(task.channels) <= 1:  # spare the search through all subfolders
        return []
    paths = sorted(folder.rglob("*"))
    images = [path for path in paths if path.is_file() and is_image(path)]
    return [image for image in images if _named_channel(image, task)]


def _group_channels(files: Iterable[Path], task: Task) -> list[Case]:
    """One case per file, or one per case name where the files are channels."""
    channels_by_case: dict[tuple[Path, str], dict[int, Path]] = {}
    for file in files:
        name, channel = _case_and_channel(file, task)
        channels = channels_by_case.setdefault((file.parent, name), {})
        first = channels.setdefault(channel, file)
        if first != file:
            raise UserError(f"{first} and {file} are the same channel of {name}: give one of them.")
    cases = []
    for (_, name), channels in channels_by_case.items():
        images = tuple(channels[channel] for channel in sorted(channels))
        cases.append(Case(name, name, images))
    return cases


def _case_and_channel(file: Path, task: Task) -> tuple[str, int]:
    """The name of the case and the channel index; a file without either is a case of its own."""
    named = _named_channel(file, task)
    if named is not None:
        return named
    numbered = _numbered_channel(file, task)
    if numbered is not None:
        return numbered
    return stem(file), 0


def _named_channel(file: Path, task: Task) -> tuple[str, int] | None:
    """The case and the channel index of `a_flair.nii.gz`, if flair is one of several channels."""
    if len(task.channels) <= 1:
        return None
    name = stem(file)
    for index, channel in enumerate(task.channels):
        suffix = f"_{channel}"
        case = name[: -len(suffix)]
        ending = name[-len(suffix) :]
        if case and ending.lower() == suffix.lower():
            return case, index
    return None


def _numbered_channel(file: Path, task: Task) -> tuple[str, int] | None:
    """The case and the channel index of `a_0000.nii.gz`, as in nnU-Net.

    None for `a_2019.nii.gz`: a number that is not a channel of the task belongs to the name.
    """
    match = re.fullmatch(r"(.+)_(\d{4})", stem(file), re.DOTALL)
    if match is None:
        return None
    channel = int(match[2])
    if channel >= len(task.channels):
        return None
    return match[1], channel
