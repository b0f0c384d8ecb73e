"""The simulated disk loses what a power cut would lose, and keeps what was written durably."""

import os
import pickle
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from disk import Disk, End, restore

from segpl.foundation.files import draft, write_text


def after_cut(folder, end, work, end_at=0):
    """What is left of a folder if the power is cut after `work`, or at one of its changes."""
    root = folder / "root"
    root.mkdir()
    (root / "old.txt").write_text("old")
    report = folder / "report"
    process = os.fork()
    if process == 0:
        disk = Disk(root, end, end_at, report)
        disk.watch()
        work(root)
        disk.cut()
        os._exit(0)
    os.waitpid(process, 0)
    return pickle.loads(report.read_bytes())


def write_carelessly(root):
    (root / "draft").write_text("new")
    (root / "draft").replace(root / "old.txt")
    (root / "folder").mkdir()


def write_durably(root):
    write_text(root / "old.txt", "new")
    write_text(root / "a/b/new.txt", "content")
    with draft(root / "folder") as temporary:
        write_text(temporary / "inner/file", "inside")


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (End.DATA_LOST, {"old.txt": b"", "folder": None}),
        (End.NAMES_LOST, {"old.txt": b"old"}),
    ],
)
def test_what_was_not_synced_is_lost(tmp_path, end, left):
    assert after_cut(tmp_path, end, write_carelessly) == left


@pytest.mark.parametrize("end", [End.DATA_LOST, End.NAMES_LOST])
def test_what_was_written_durably_is_kept(tmp_path, end):
    assert after_cut(tmp_path, end, write_durably) == {
        "old.txt": b"new",
        "a": None,
        "a/b": None,
        "a/b/new.txt": b"content",
        "folder": None,
        "folder/inner": None,
        "folder/inner/file": b"inside",
    }


@pytest.mark.parametrize("end", [End.DATA_LOST, End.NAMES_LOST])
@pytest.mark.parametrize("change", [1, 2, 3, 4])
def test_a_file_is_old_or_new_at_every_change(tmp_path, end, change):
    """The changes: open the draft, sync it, rename it, sync the folder."""
    left = after_cut(tmp_path, end, lambda root: write_text(root / "old.txt", "new"), change)
    expected = b"new" if change == 4 and end is End.DATA_LOST else b"old"
    assert left["old.txt"] == expected


def test_a_folder_is_restored(tmp_path):
    contents = {"a": None, "a/file": b"x", "empty": None}
    restore(tmp_path / "root", contents)
    assert (tmp_path / "root/a/file").read_bytes() == b"x"
    assert (tmp_path / "root/empty").is_dir()
