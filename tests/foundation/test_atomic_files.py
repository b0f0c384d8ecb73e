"""Files and folders are written completely or not at all."""

import os
import re
from pathlib import Path

import pytest

from segpl.foundation.errors import UserError
from segpl.foundation.files import (
    ABANDONED_AFTER,
    draft,
    remove_drafts,
    write_bytes,
    write_text,
)

SOURCE = Path(__file__).parents[2] / "src/segpl"


def test_text_is_written_with_its_folder_and_replaces_what_was_there(tmp_path):
    file = tmp_path / "new/folder/file.txt"
    write_text(file, "first, a longer text")
    write_text(file, "größer\n")
    assert file.read_bytes() == "größer\n".encode()
    assert list(file.parent.iterdir()) == [file]


def test_a_failure_leaves_the_old_file_and_no_draft(tmp_path):
    file = tmp_path / "file.txt"
    write_text(file, "old")

    def fail():
        with draft(file) as temporary:
            temporary.write_text("half of the new")
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_failed_rename_leaves_no_draft_and_one_sentence(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(UserError, match=r"file cannot be written \(No space left on device\)"):
        write_bytes(tmp_path / "file", b"content")
    assert list(tmp_path.iterdir()) == []


def test_a_block_that_writes_nothing_is_an_error(tmp_path):
    with pytest.raises(UserError, match="cannot be written"), draft(tmp_path / "file"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_content_reaches_the_disk_before_its_name_does(tmp_path, monkeypatch):
    calls = []
    fsync = os.fsync
    replace = Path.replace

    def record_sync(descriptor):
        calls.append("sync")
        fsync(descriptor)

    def record_rename(path, target):
        calls.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(Path, "replace", record_rename)
    write_text(tmp_path / "file", "content")
    assert calls == ["sync", "rename", "sync"]


def test_a_folder_is_written_as_a_whole_and_may_replace_an_empty_one(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with draft(folder) as temporary:
        write_text(temporary / "inner/file", "content")
        assert not list(folder.iterdir())
    assert (folder / "inner/file").read_text() == "content"
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_that_is_not_empty_is_not_replaced(tmp_path):
    folder = tmp_path / "folder"
    write_text(folder / "mine", "precious")
    with pytest.raises(UserError, match="folder cannot be written"), draft(folder) as temporary:
        write_text(temporary / "other", "content")
    assert [file.name for file in tmp_path.rglob("*")] == ["folder", "mine"]


def test_a_draft_keeps_the_ending_and_is_hidden(tmp_path):
    with draft(tmp_path / "mask.nii.gz") as temporary:
        assert temporary.name.startswith(".")
        assert temporary.name.endswith("mask.nii.gz")
        temporary.touch()


def test_drafts_of_killed_processes_are_removed_and_nothing_else(tmp_path):
    old = tmp_path / "folder/.part-0123abcd-mask.nii.gz"
    new = tmp_path / "folder/.part-99999999-folder"
    others = [tmp_path / "folder/.part-of-mine", tmp_path / "folder/deeper/.part-0123abcd-mask"]
    write_text(old, "half")
    write_text(new / "inner", "half")
    for other in others:
        write_text(other, "mine")
    os.utime(old, (0, 0))
    remove_drafts(tmp_path, depth=1, older_than=ABANDONED_AFTER)
    assert not old.exists()
    assert new.exists()
    remove_drafts(tmp_path, depth=1)
    assert not new.exists()
    assert all(other.is_file() for other in others)


def test_nothing_else_renames_files():
    """There is one function that writes a file atomically."""
    rename = re.compile(
        r"os\.(replace|rename)\(|\.(rename|replace)\((file|folder|entry|path|target)\)"
    )
    renaming = []
    for file in SOURCE.rglob("*.py"):
        if rename.search(file.read_text(encoding="utf-8")):
            renaming.append(file.relative_to(SOURCE).as_posix())
    assert renaming == ["foundation/files.py"]


def test_nothing_else_writes_files_directly():
    """What libraries write goes to a draft; a study's runs print to a file of their own."""
    writing = re.compile(r'\.write_(text|bytes)\(|open\([^)]*"[wax]b?"')
    files = []
    for file in SOURCE.rglob("*.py"):
        if writing.search(file.read_text(encoding="utf-8")):
            files.append(file.relative_to(SOURCE).as_posix())
    assert sorted(files) == ["foundation/files.py", "study/local.py"]
