"""Where an export is written. Nothing is overwritten, and no half-written result is left behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from segpl.foundation.errors import UserError
from segpl.foundation.files import ABANDONED_AFTER, draft, make_folder, remove_drafts


def check_new_file(file: Path) -> None:
    """Raise an error unless a new file can be written there.

    Called before the long work starts. The parent folder is created.
    """
    if file.is_dir():
        raise UserError(f"{file} is a folder: give the name of a file.")
    if file.exists():
        raise UserError(f"{file} exists already: delete it or choose another --out.")
    with _explain_write_errors(file):
        _prepare(file.parent)
        trial = file.with_name(file.name + ".part")
        trial.touch()
        trial.unlink()


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a draft folder to fill. It becomes `folder` on success; an error removes it."""
    if folder.is_file():
        raise UserError(f"{folder} is a file: give the name of a new folder.")
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty: delete it or choose another --out.")
    folder = folder.resolve()
    with _explain_write_errors(folder):
        _prepare(folder.parent)
    with draft(folder) as draft_folder:
        draft_folder.mkdir()
        yield draft_folder


def _prepare(folder: Path) -> None:
    """Make the folder of an export, and remove the drafts of exports that were killed there."""
    make_folder(folder)
    remove_drafts(folder, depth=0, older_than=ABANDONED_AFTER)


@contextmanager
def _explain_write_errors(path: Path) -> Iterator[None]:
    """Turn an operating-system error into a sentence that names the path and the remedy."""
    try:
        yield
    except OSError as error:
        reason = error.strerror
        raise UserError(f"{path} cannot be written ({reason}): choose another --out.") from None
