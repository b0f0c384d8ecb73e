"""Match labels to images by their file names."""

from collections.abc import Callable, Iterable
from pathlib import Path

from segpl.data.cases import Case, Cases
from segpl.data.formats import is_image, stem
from segpl.foundation.errors import UserError

CaseName = Callable[[Path], str]
"""The name of the case that a file belongs to."""


def visible(paths: Iterable[Path]) -> list[Path]:
    """The paths in order, without hidden files such as macOS leaves behind."""
    return sorted(path for path in paths if not path.name.startswith("."))


def images_in(folder: Path) -> list[Path]:
    """The visible images of a folder in order; none if the folder does not exist."""
    if not folder.is_dir():
        return []
    return [path for path in visible(folder.iterdir()) if is_image(path)]


def pair(images: Iterable[Path], labels: Iterable[Path], case_name: CaseName = stem) -> Cases:
    """One case per image, with the label of the same case name if there is one."""
    images_by_case = _by_case(images, case_name)
    labels_by_case = _by_case(labels, case_name)
    for name, label_file in labels_by_case.items():
        if name not in images_by_case:
            raise UserError(
                f"{label_file} has no image that belongs to it: add the image or remove the label."
            )
    cases = []
    for name, image in images_by_case.items():
        label = labels_by_case.get(name)
        cases.append(Case(name, name, (image,), label))
    return tuple(cases)


def _by_case(files: Iterable[Path], case_name: CaseName) -> dict[str, Path]:
    """The files by the name of their case; an error if two belong to the same case."""
    file_by_case: dict[str, Path] = {}
    for file in files:
        name = case_name(file)
        first = file_by_case.setdefault(name, file)
        if first != file:
            raise UserError(
                f"{first} and {file} both belong to case {name}: keep or rename one of them."
            )
    return file_by_case
