"""segpl runs on systems other than Linux: portable libraries do what depends on the system."""

import ast
import time
from pathlib import Path

import numpy as np

from segpl.foundation.memory import (
    PeakMemory,
    available_bytes,
    resident_bytes,
    resident_bytes_without_files,
)

SOURCE = Path(__file__).parents[2] / "src/segpl"
POSIX_ONLY = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}


def imported_modules(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_nothing_imports_a_module_that_only_posix_has():
    files = list(SOURCE.rglob("*.py"))
    assert files
    for file in files:
        assert POSIX_ONLY.isdisjoint(imported_modules(file)), file


def test_nothing_reads_the_proc_files_of_linux():
    for file in SOURCE.rglob("*.py"):
        assert "/proc/" not in file.read_text(encoding="utf-8"), file


def test_the_peak_is_that_between_start_and_stop():
    before = resident_bytes()
    with PeakMemory() as memory:
        kept = np.ones(25_000_000)  # 200 MB
        time.sleep(0.05)
        del kept
    assert memory.bytes > before + 150e6
    with PeakMemory() as later:
        pass
    assert later.bytes < memory.bytes - 100e6


def test_stop_may_be_called_before_start_and_twice():
    memory = PeakMemory()
    memory.stop()
    assert memory.bytes == 0
    memory.start()
    memory.stop()
    memory.stop()
    assert memory.bytes > 0


def test_memory_without_files_is_part_of_the_resident_memory():
    assert 0 < resident_bytes_without_files() <= resident_bytes()


def test_some_memory_is_available():
    assert available_bytes() > 0
