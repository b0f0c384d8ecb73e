"""A folder belongs to one process at a time, and to nobody when that process has ended."""

import pytest
from folder_in_use import folder_in_use

from segpl.foundation.errors import UserError
from segpl.foundation.locks import LOCK_FILE, exclusive_use


def test_another_process_is_refused_until_the_first_has_ended(tmp_path):
    folder = tmp_path / "folder"
    message = "folder is in use by another segpl command"
    with folder_in_use(folder), pytest.raises(UserError, match=message):
        exclusive_use(folder).__enter__()
    assert (folder / LOCK_FILE).is_file()
    with exclusive_use(folder):
        pass


def test_a_process_may_lock_a_folder_twice(tmp_path):
    with exclusive_use(tmp_path), exclusive_use(tmp_path):
        pass


def test_a_new_folder_that_stays_empty_is_removed(tmp_path):
    with exclusive_use(tmp_path / "folder"):
        assert (tmp_path / "folder").is_dir()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match=r"folder cannot be written \(Not a directory\)"):
        exclusive_use(tmp_path / "file/folder").__enter__()
