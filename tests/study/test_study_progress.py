"""The progress of a study in lines and in a live table."""

import pytest
from rich.console import Console

from segpl.foundation.progress import format_duration
from segpl.study import progress as module
from segpl.study.progress import StudyProgress
from segpl.study.single_run import record_failure


@pytest.fixture
def clock(monkeypatch):
    """A list whose only item is the time in seconds."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def jobs(study_file, jobs_of, tmp_path):
    """Four runs by their directories."""
    return {tmp_path / job.name: job for job in jobs_of(study_file)}


def test_before_any_run_has_ended_no_time_is_estimated(jobs, clock):
    progress = StudyProgress(jobs, done=2, workers=1)
    assert progress.summary() == "2 of 6 runs done, 0 running, 0 failed, 4 left"


def test_the_time_left_is_estimated_from_runs_of_the_same_method(jobs, clock):
    first, second, third, _ = jobs
    progress = StudyProgress(jobs, done=2, workers=1)
    progress.run_started(first)
    clock[0] = 40.0
    progress.run_ended(first)  # supervised takes 40 s; nothing is known of segpl yet
    assert progress.summary() == "3 of 6 runs done, 0 running, 0 failed, 3 left; 2 min to go"
    progress.run_started(second)
    clock[0] = 50.0
    progress.run_ended(second)  # segpl takes 10 s
    progress.run_started(third)
    clock[0] = 65.0
    assert progress.summary() == "4 of 6 runs done, 1 running, 0 failed, 1 left; 35 s to go"


def test_without_a_terminal_a_line_is_printed_for_each_run(jobs, clock, capsys):
    first = next(iter(jobs))
    progress = StudyProgress(jobs, done=2, workers=1)
    progress.run_started(first)
    clock[0] = 40.0
    progress.run_ended(first)
    counts = "3 of 6 runs done, 0 running, 0 failed, 3 left; 2 min to go"
    assert capsys.readouterr().err == f"{counts}  ({first.name}: 40 s)\n"


def test_a_failure_is_counted_and_its_reason_printed(jobs, clock, capsys):
    first = next(iter(jobs))
    first.mkdir()
    progress = StudyProgress(jobs, done=0, workers=1)
    progress.run_started(first)
    record_failure(first, "the [disk]\nis full")
    progress.run_ended(first)
    assert progress.summary() == "0 of 4 runs done, 0 running, 1 failed, 3 left"
    assert f"failed: {first.name}: the [disk] is full" in capsys.readouterr().err


def test_the_live_table_names_what_runs_and_for_how_long(jobs, clock):
    first = next(iter(jobs))
    progress = StudyProgress(jobs, done=0, workers=1)
    progress.run_started(first)
    clock[0] = 130.0
    console = Console(record=True, width=120, quiet=False)
    with console.capture() as capture:
        console.print(progress.table())
    printed = capture.get()
    assert first.name in printed
    assert "2 min" in printed
    assert "0 of 4 runs done, 1 running" in printed


def test_a_terminal_gets_the_table_and_no_lines(jobs, clock, monkeypatch):
    terminal = Console(force_terminal=True, width=120)
    monkeypatch.setattr(module, "console", terminal)
    with terminal.capture() as capture, StudyProgress(jobs, done=0, workers=1) as progress:
        for directory in jobs:
            progress.run_started(directory)
            progress.live.refresh()
            progress.run_ended(directory)
    printed = capture.get()
    first = next(iter(jobs))
    assert "running" in printed
    assert f"({first.name}: 0 s)" not in printed


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (600, "10 min"), (7200, "2.0 h")]
)
def test_a_duration_has_a_suitable_unit(seconds, text):
    assert format_duration(seconds) == text
