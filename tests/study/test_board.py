"""How far a study is, said in lines and in a table."""

import pytest
from rich.console import Console

from segpl.foundation.progress import in_words
from segpl.study import board as module
from segpl.study.board import Board
from segpl.study.work import fail


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def todo(study_file, jobs_of, tmp_path):
    return {tmp_path / job.name: job for job in jobs_of(study_file)}


def test_counts_and_time_left(todo, clock, capsys):
    first, second, third, _ = todo
    board = Board(todo, done=2, workers=1)
    assert board.counts() == "2 of 6 runs done, 0 running, 0 failed, 4 left"
    board.begun(first)
    clock[0] = 40.0
    board.ended(first)  # supervised takes 40 s; of segpl nothing is known yet
    assert board.counts() == "3 of 6 runs done, 0 running, 0 failed, 3 left; 2 min to go"
    board.begun(second)
    clock[0] = 50.0
    board.ended(second)  # segpl takes 10 s
    board.begun(third)
    clock[0] = 65.0
    assert board.counts() == "4 of 6 runs done, 1 running, 0 failed, 1 left; 35 s to go"
    lines = capsys.readouterr().err.splitlines()
    assert (
        lines[0]
        == f"3 of 6 runs done, 0 running, 0 failed, 3 left; 2 min to go  ({first.name}: 40 s)"
    )


def test_a_failure_is_counted_and_its_reason_said(todo, clock, capsys):
    first = next(iter(todo))
    first.mkdir()
    board = Board(todo, done=0, workers=1)
    board.begun(first)
    fail(first, "the [disk]\nis full")
    board.ended(first)
    assert board.counts() == "0 of 4 runs done, 0 running, 1 failed, 3 left"
    assert f"failed: {first.name}: the [disk] is full" in capsys.readouterr().err


def test_the_live_table_names_what_runs_and_for_how_long(todo, clock):
    board = Board(todo, done=0, workers=1)
    board.begun(next(iter(todo)))
    clock[0] = 130.0
    console = Console(record=True, width=120, quiet=False)
    with console.capture() as shown:
        console.print(board.table())
    assert next(iter(todo)).name in shown.get()
    assert "2 min" in shown.get()
    assert "0 of 4 runs done, 1 running" in shown.get()


def test_a_terminal_gets_the_table_and_no_lines(todo, clock, monkeypatch):
    terminal = Console(force_terminal=True, width=120)
    monkeypatch.setattr(module, "console", terminal)
    with terminal.capture() as shown, Board(todo, done=0, workers=1) as board:
        for directory in todo:
            board.begun(directory)
            board.live.refresh()
            board.ended(directory)
    assert "running" in shown.get()
    assert f"({next(iter(todo)).name}: 0 s)" not in shown.get()


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (89, "89 s"), (600, "10 min"), (7200, "2.0 h")]
)
def test_times_as_people_say_them(seconds, words):
    assert in_words(seconds) == words
