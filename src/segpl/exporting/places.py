"""Where an export goes: nothing is overwritten, and nothing is left half made."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from segpl.foundation.errors import UserError
from segpl.foundation.files import draft


def free_file(file: Path) -> None:
    """Make sure, before the work begins, that a new file can be written there."""
    if file.is_dir():
        raise UserError(f"{file} is a folder: give the name of a file.")
    if file.exists():
        raise UserError(f"{file} exists already: delete it or choose another --out.")
    with _writable(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        trial = file.with_name(file.name + ".part")
        trial.touch()
        trial.unlink()


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A draft to fill, which becomes the folder when all went well and vanishes otherwise."""
    if folder.is_file():
        raise UserError(f"{folder} is a file: give the name of a new folder.")
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty: delete it or choose another --out.")
    folder = folder.resolve()
    with _writable(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with draft(folder) as place:
        place.mkdir()
        yield place


@contextmanager
def _writable(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{place} cannot be written ({error.strerror}): choose another --out."
        ) from None
