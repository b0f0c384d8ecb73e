"""Real runs, killed: whatever happens to a study, its tables come out byte for byte the same."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from segpl.study.running import run_study

CODE = """
import sys
from pathlib import Path
from segpl.study.running import run_study
run_study(Path(sys.argv[1]), Path(sys.argv[2]), workers=2)
"""


def output(*words):
    return subprocess.run(
        [str(word) for word in words], capture_output=True, encoding="utf-8", check=False
    ).stdout


def steps_done(out):
    """Steps of the training that is furthest."""
    logs = [log.read_text(encoding="utf-8") for log in out.glob("runs/*/log.csv")]
    return max((log.count("\n") - 1 for log in logs), default=0)


@pytest.mark.slow
def test_a_study_killed_at_any_moment_leaves_no_process_and_ends_with_the_same_tables(
    undisturbed, tables, tmp_path
):
    file, expected = undisturbed
    step = random.randint(1, 70)  # of 100: any will do, a failure names it
    command = [sys.executable, "-c", CODE, str(file), str(tmp_path / "out")]
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
    while steps_done(tmp_path / "out") < step:
        assert process.poll() is None
        time.sleep(0.02)
    workers = output("pgrep", "-P", process.pid).split()
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the study ended before it could be killed"
    patience = time.monotonic() + 10
    while any(
        output("ps", "-o", "stat=", "-p", worker).strip() not in ("", "Z") for worker in workers
    ):
        assert time.monotonic() < patience, "a worker outlived its study"
    assert run_study(file, tmp_path / "out", workers=2) == 0
    assert tables(tmp_path / "out") == tables(expected), f"killed after step {step} of a training"
    assert {run.name for run in tmp_path.glob("out/runs/*")} == {
        run.name for run in expected.glob("runs/*")
    }
