"""Real runs, killed: whatever happens to a study, its tables come out byte for byte the same."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from study_files import read_tables

from segpl.study.running import run_study

CODE = """
import sys
from pathlib import Path
from segpl.study.running import run_study
run_study(Path(sys.argv[1]), Path(sys.argv[2]), workers=2)
"""


def output(*command):
    result = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    return result.stdout


def is_alive(process_id):
    state = output("ps", "-o", "stat=", "-p", process_id).strip()
    return state not in ("", "Z")


def steps_done(out):
    """Steps of the training that has made most of them."""
    logs = [log.read_text(encoding="utf-8") for log in out.glob("runs/*/log.csv")]
    return max((log.count("\n") - 1 for log in logs), default=0)


def run_names(out):
    return {run.name for run in out.glob("runs/*")}


@pytest.mark.slow
def test_a_study_killed_at_any_moment_leaves_no_process_and_ends_with_the_same_tables(
    undisturbed, tmp_path
):
    file, expected = undisturbed
    out = tmp_path / "out"
    step = random.randint(1, 70)  # of 100: any will do, a failure names it
    command = [sys.executable, "-c", CODE, str(file), str(out)]
    study = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
    while steps_done(out) < step:
        assert study.poll() is None
        time.sleep(0.02)
    workers = output("pgrep", "-P", str(study.pid)).split()
    study.send_signal(signal.SIGKILL)
    assert study.wait() == -signal.SIGKILL, "the study ended before it could be killed"
    deadline = time.monotonic() + 10
    while any(is_alive(worker) for worker in workers):
        assert time.monotonic() < deadline, "a worker outlived its study"
    assert run_study(file, out, workers=2) == 0
    assert read_tables(out) == read_tables(expected), f"killed after step {step} of a training"
    assert run_names(out) == run_names(expected)
