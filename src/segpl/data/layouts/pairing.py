"""Which label belongs to which image, where only the names of the files say so."""

from collections.abc import Callable, Iterable
from pathlib import Path

from segpl.data.cases import Case
from segpl.data.formats import is_image, stem
from segpl.foundation.errors import UserError


def images_in(folder: Path) -> list[Path]:
    """The images of a folder by name, without the hidden files that some systems leave behind."""
    if not folder.is_dir():
        return []
    return sorted(
        file for file in folder.iterdir() if not file.name.startswith(".") and is_image(file)
    )


def pair(
    images: Iterable[Path], labels: Iterable[Path], key: Callable[[Path], str] = stem
) -> tuple[Case, ...]:
    """A case per image, called by its key; with the label of the same key where there is one."""
    of_image, of_label = _by_key(images, key), _by_key(labels, key)
    for name, label in of_label.items():
        if name not in of_image:
            raise UserError(
                f"{label} has no image that belongs to it: add the image or remove the label."
            )
    return tuple(Case(name, name, (image,), of_label.get(name)) for name, image in of_image.items())


def _by_key(files: Iterable[Path], key: Callable[[Path], str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for file in files:
        first = found.setdefault(key(file), file)
        if first != file:
            raise UserError(
                f"{first} and {file} both belong to case {key(file)}: keep or rename one of them."
            )
    return found
