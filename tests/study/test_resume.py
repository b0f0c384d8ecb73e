"""Real runs, killed: whatever happens to a study, its tables come out byte for byte the same."""

import os
import random
import signal
import subprocess
import sys
import time

from segpl.study import run_study

CODE = """
import sys
from pathlib import Path
from segpl.study import run_study
run_study(Path(sys.argv[1]), Path(sys.argv[2]), workers=2)
"""


def output(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, encoding="utf-8", check=False).stdout


def test_a_study_killed_at_any_moment_leaves_no_process_and_ends_with_the_same_tables(undisturbed, tables, tmp_path):
    file, expected = undisturbed
    seconds = random.uniform(0, 3)  # any moment will do: a failure names it
    command = [sys.executable, "-c", CODE, str(file), str(tmp_path / "out")]
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
    while not list(tmp_path.glob("out/runs/*/split.json")):  # the first training has begun
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(seconds)
    workers = output("pgrep", "-P", process.pid).split()
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the study ended before it could be killed"
    assert not (tmp_path / "out/tables").exists()
    patience = time.monotonic() + 10
    while any(output("ps", "-o", "stat=", "-p", worker).strip() not in ("", "Z") for worker in workers):
        assert time.monotonic() < patience, "a worker outlived its study"
    assert run_study(file, tmp_path / "out", workers=2) == 0
    assert tables(tmp_path / "out") == tables(expected), f"killed {seconds:.2f} s after the first training had begun"
    assert {run.name for run in tmp_path.glob("out/runs/*")} == {run.name for run in expected.glob("runs/*")}
