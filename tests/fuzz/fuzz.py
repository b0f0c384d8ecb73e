"""Damage every file that segpl reads, and count how commands end: `make fuzz`.

Each mutant is read in a process of its own, forked from this one, so that a crash, an endless loop
or a flood of memory is seen and stops nothing else.
"""

import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # series.py, as in the tests

import samples
import torch
from mutants import mutant

from segpl.cli.exits import run_command
from segpl.data.formats import read_image
from segpl.foundation.errors import UserError

MOST_SECONDS = 20
MOST_BYTES = 2_000_000_000
GOOD_CODES = (0, 2)
TEXT_ENDINGS = (".json", ".yaml", ".csv", ".mhd", ".nhdr")
CHECKED_FORMATS = ("a.nii.gz", "c.mha", "e.nrrd", "j.npz", "l.png")
"""Files with a checksum over their voxels."""


@dataclass
class Outcome:
    """How all mutants ended."""

    counts: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, name: str, code: int, seconds: float, peak_bytes: int) -> None:
        self.counts["mutants"] += 1
        self.counts[f"exit {code}"] += 1
        problems = {
            "tracebacks": code not in GOOD_CODES,
            "over time": seconds > MOST_SECONDS,
            "over memory": peak_bytes > MOST_BYTES,
        }
        for problem, happened in problems.items():
            self.counts[problem] += happened
            if happened:
                self.failures.append(f"{name}: {problem}, exit {code}, {seconds:.0f} s")


def fuzz_commands(folder: Path, mutants: int, first: int = 0, keep: Path | None = None) -> Outcome:
    """Run the command of every sample on mutants of its file, in forked processes.

    `first` is the number of the first mutant, which is its seed.
    """
    torch.set_num_threads(1)  # a forked process has no other thread
    every_sample = samples.all_samples(folder)
    outcome = Outcome()
    for number in range(first, first + mutants):
        sample = every_sample[number % len(every_sample)]
        copy, file = _mutated_copy(sample, folder / "mutant", number)
        words = sample.words(copy)
        code, seconds, peak_bytes, output = _in_fork(words, folder / "output.txt")
        name = f"{number} {file} {words[0]}"
        failures = len(outcome.failures)
        outcome.add(name, code, seconds, peak_bytes)
        if len(outcome.failures) > failures:
            outcome.failures[-1] += f": {output[-300:]}"
            if keep:
                shutil.copytree(copy, keep / str(number), dirs_exist_ok=True)
    return outcome


def fuzz_command_line(folder: Path, mutants: int) -> Outcome:
    """The same through the command line, each mutant in a new Python."""
    every_sample = samples.all_samples(folder)
    outcome = Outcome()
    for number in range(mutants):
        sample = every_sample[number % len(every_sample)]
        copy, file = _mutated_copy(sample, folder / "mutant", 10_000 + number)
        words = sample.words(copy)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "segpl", *words],
                capture_output=True,
                timeout=6 * MOST_SECONDS,
                check=False,
            )
            code = done.returncode
            code = 1 if b"Traceback" in done.stderr else code
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        outcome.add(f"{number} {file} {words[0]}", code, seconds, after.ru_maxrss * 1024)
    return outcome


def fuzz_checksums(folder: Path, flips: int) -> Counter:
    """Flip single bits of formats with a checksum: how many are read with other voxels?"""
    samples.write_images(folder)
    counts: Counter = Counter()
    for number in range(flips):
        name = CHECKED_FORMATS[number % len(CHECKED_FORMATS)]
        expected = read_image(folder / name).values
        content = bytearray((folder / name).read_bytes())
        position = int(np.random.default_rng([3, number]).integers(8 * len(content)))
        content[position // 8] ^= 1 << position % 8
        damaged = folder / f"damaged{name[1:]}"
        damaged.write_bytes(content)
        counts["flips"] += 1
        try:
            values = read_image(damaged).values
        except UserError:
            counts["refused"] += 1
            continue
        is_same = values.shape == expected.shape and np.array_equal(values, expected)
        counts["accepted unchanged" if is_same else "accepted changed"] += 1
    return counts


def fuzz_dicom_slices(folder: Path, cuts: int) -> Counter:
    """Cut one slice of a series short: how many series are read without it?"""
    samples.write_images(folder)
    counts: Counter = Counter()
    files = sorted((folder / "series").iterdir())
    for number in range(cuts):
        file = files[number % len(files)]
        content = file.read_bytes()
        length = int(np.random.default_rng([4, number]).integers(len(content)))
        file.write_bytes(content[:length])
        counts["cuts"] += 1
        try:
            read_image(folder / "series")
            counts["accepted"] += 1
        except UserError:
            counts["refused"] += 1
        file.write_bytes(content)
    return counts


def _mutated_copy(sample: samples.Sample, copy: Path, seed: int) -> tuple[Path, str]:
    """A copy of the sample's folder with one file damaged, and the name of that file."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(sample.folder, copy)
    rng = np.random.default_rng([7, seed])
    name = sample.files[int(rng.integers(len(sample.files)))]
    file = copy / name
    is_text = file.suffix in TEXT_ENDINGS
    file.write_bytes(mutant(file.read_bytes(), rng, is_text))
    return copy, name


def _in_fork(words: list[str], output: Path) -> tuple[int, float, int, str]:
    """Exit code, seconds, peak memory and output of a command in a forked process.

    A process that a signal ended has a negative code, as in `subprocess`.
    """
    started = time.monotonic()
    process = os.fork()
    if process == 0:
        _run_in_child(words, output)
    ended, status, usage = 0, 0, None
    while not ended:
        time.sleep(0.005)
        ended, status, usage = os.wait4(process, os.WNOHANG)
        if not ended and time.monotonic() - started > 6 * MOST_SECONDS:
            os.kill(process, signal.SIGKILL)
    seconds = usage.ru_utime + usage.ru_stime  # of the processor: others may use the machine
    code = os.waitstatus_to_exitcode(status)
    return code, seconds, usage.ru_maxrss * 1024, output.read_text(errors="replace")


def _run_in_child(words: list[str], output: Path) -> None:
    """Never returns."""
    code = 99
    try:
        with output.open("w") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
            code = run_command(words)
            sys.stdout.flush()
            sys.stderr.flush()
    finally:
        os._exit(code)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=900, help="read in forked processes")
    parser.add_argument("--command-line", type=int, default=100, help="read by the command line")
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--flips", type=int, default=900)
    parser.add_argument("--cuts", type=int, default=180)
    parser.add_argument("--keep", type=Path, help="folder for the mutants that failed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SEGPL_CACHE"] = f"{folder}/cache"
        flips = fuzz_checksums(Path(folder, "flips"), options.flips)
        print("bit flips of formats with a checksum:", _format(flips), flush=True)
        cuts = fuzz_dicom_slices(Path(folder, "cuts"), options.cuts)
        print("cut DICOM slices:", _format(cuts), flush=True)
        forked = fuzz_commands(Path(folder, "forked"), options.mutants, options.first, options.keep)
        print("mutants in forked processes:", _format(forked.counts), flush=True)
        called = fuzz_command_line(Path(folder, "called"), options.command_line)
        print("mutants through the command line:", _format(called.counts), flush=True)
    failures = [*forked.failures, *called.failures]
    for failure in failures:
        print(f"  {failure}")
    is_bad = failures or flips["accepted changed"] or cuts["accepted"]
    return 1 if is_bad else 0


def _format(counts: Counter) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main())
