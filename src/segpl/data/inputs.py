"""Which scans are meant: files, folders and DICOM series become cases, whatever way their channels are stored."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from segpl.data.cases import Case, Task
from segpl.data.formats import is_image, stem
from segpl.data.layouts import LAYOUTS, read_dataset
from segpl.data.layouts.pairing import images_in
from segpl.foundation.errors import UserError


def find_cases(inputs: Sequence[Path], task: Task) -> tuple[Case, ...]:
    """The cases in `inputs`. Whether they can be read and have the right channels shows when they are read.

    A folder is a DICOM series; or holds the channels of cases by name (`a_flair.nii.gz`), perhaps a folder a case; or
    is a data folder of any layout, of which all images count; or holds images, one a case or numbered by channel
    (`a_0000.nii.gz`). Files are taken as those of a folder.
    """
    folders = [path for path in inputs if path.is_dir() and not is_image(path)]
    files = [path.resolve() if path.is_dir() else path for path in inputs if path not in folders]
    cases = [case for folder in folders for case in _in_folder(folder.resolve(), task)]
    cases += _grouped(files, task)
    seen: dict[str, Case] = {}
    for case in cases:
        first = seen.setdefault(case.name, case)
        if first.images != case.images:
            raise UserError(
                f"{first.images[0]} and {case.images[0]} are both called {case.name}: rename one of them."
            )
    return tuple(seen.values())


def _in_folder(folder: Path, task: Task) -> Iterable[Case]:
    if len(task.channels) > 1:
        files = (file for file in sorted(folder.rglob("*")) if file.is_file() and is_image(file))
        named = [file for file in files if _by_name(file, task)]
        if named:  # what lies beside them are labels
            return _grouped(named, task)
    if any(layout.recognises(folder) for layout in LAYOUTS):
        dataset = read_dataset(folder)
        return [case.unlabelled() for case in (*dataset.training, *dataset.test)]
    images = images_in(folder)
    if not images:
        raise UserError(
            f"{folder} holds no image: give image files, a folder of them, or a DICOM series."
        )
    return _grouped(images, task)


def _grouped(files: Iterable[Path], task: Task) -> list[Case]:
    """A case per file, or per name where files are channels."""
    found: dict[tuple[Path, str], dict[int, Path]] = {}
    for file in files:
        name, channel = _by_name(file, task) or _by_number(file, task) or (stem(file), 0)
        others = found.setdefault((file.parent, name), {})
        if others.setdefault(channel, file) != file:
            raise UserError(
                f"{others[channel]} and {file} are the same channel of {name}: give one of them."
            )
    return [
        Case(name, name, tuple(channels[place] for place in sorted(channels)))
        for (_, name), channels in found.items()
    ]


def _by_name(file: Path, task: Task) -> tuple[str, int] | None:
    """The case and the channel of `a_flair.nii.gz`, where the run has several channels and one is flair."""
    for place, channel in enumerate(task.channels if len(task.channels) > 1 else ()):
        name, ending = stem(file)[: -len(channel) - 1], stem(file)[-len(channel) - 1 :]
        if name and ending.lower() == f"_{channel.lower()}":
            return name, place
    return None


def _by_number(file: Path, task: Task) -> tuple[str, int] | None:
    """The case and the channel of `a_0000.nii.gz`, as nnU-Net counts; `a_2019.nii.gz` is no channel."""
    numbered = re.fullmatch(r"(.+)_(\d{4})", stem(file))
    return (
        (numbered[1], int(numbered[2]))
        if numbered and int(numbered[2]) < len(task.channels)
        else None
    )
