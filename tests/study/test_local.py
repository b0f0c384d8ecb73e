"""Runs of a study as processes of this machine, and how they end."""

import json
import signal
import sys
import time
from dataclasses import asdict

from segpl.study import local
from segpl.study.single_run import DONE_FILE, Evaluation, finished_result

SAVES_ITS_STATE = """
import signal, sys, time
from pathlib import Path
directory = Path(sys.argv[1])
def save(*_):
    (directory / "saved").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
(directory / "ready").touch()
time.sleep(600)
"""


def test_a_stopped_study_lets_its_runs_save_their_state(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "COMMAND", [sys.executable, "-c", SAVES_ITS_STATE])
    directories = [tmp_path / "a", tmp_path / "b"]
    for directory in directories:
        directory.mkdir()
    events = local.run_locally(directories, workers=2)
    next(events)
    next(events)
    while not all((directory / "ready").exists() for directory in directories):
        time.sleep(0.01)
    events.close()
    assert all((directory / "saved").exists() for directory in directories)


def test_a_run_that_does_not_end_is_killed(tmp_path, monkeypatch):
    deaf = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    deaf += "open(sys.argv[1] + '/ready', 'w').close(); time.sleep(600)"
    monkeypatch.setattr(local, "COMMAND", [sys.executable, "-c", deaf])
    monkeypatch.setattr(local, "PATIENCE", 0.1)
    events = local.run_locally([tmp_path])
    next(events)
    while not (tmp_path / "ready").exists():
        time.sleep(0.01)
    events.close()  # returns, although the process ignores SIGTERM


def test_the_signal_that_ended_a_run_is_named():
    assert "was ended by SIGTERM" in local.describe_crash(128 + signal.SIGTERM)
    assert "was ended by SIGKILL" in local.describe_crash(-signal.SIGKILL)
    assert "ended with exit code 3" in local.describe_crash(3)


def test_a_damaged_record_of_a_finished_run_does_not_count(tmp_path):
    evaluation = Evaluation([], samples=1)
    done = {"evaluation": asdict(evaluation), "scores": "scores.csv", "seconds": {}}
    text = json.dumps(done)
    (tmp_path / "scores.csv").touch()
    (tmp_path / DONE_FILE).write_text(text)
    assert finished_result(tmp_path, evaluation) == done
    for bytes_left in (0, 10):
        (tmp_path / DONE_FILE).write_text(text[:bytes_left])
        assert finished_result(tmp_path, evaluation) is None
