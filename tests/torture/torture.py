"""Kill commands, cut the power, and count what is lost: `make torture`.

Every command runs in a process forked from this one. It is ended at a random moment, or at one of
the calls that change files, and continued in another process. What is then on disk must be the
same, byte for byte, as after a command that nothing disturbed.
"""

import argparse
import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import scenarios
import torch
from disk import Disk, End, restore

# Imported here once instead of in every forked process.
import segpl.api
import segpl.evaluation
import segpl.exporting
import segpl.prediction
import segpl.study.running
import segpl.training.loop  # noqa: F401
from segpl.cli.exits import run_command

OTHER_DISK = Path("/dev/shm")
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LONGEST = 1200
"""Seconds after which a process counts as hanging."""


@dataclass
class Outcome:
    """What was done, and what was lost."""

    counts: Counter = field(default_factory=Counter)
    losses: list[str] = field(default_factory=list)

    def lose(self, what: str) -> None:
        """Note a loss."""
        self.counts["losses"] += 1
        self.losses.append(what)
        print(f"  lost: {what}", flush=True)


@dataclass
class Rack:
    """Where commands are tortured: a folder with the data, a trained run and the tortured root."""

    folder: Path
    draw: random.Random
    outcome: Outcome = field(default_factory=Outcome)

    @property
    def root(self) -> Path:
        """The only folder in which commands write."""
        return self.folder / "root"

    def in_fork(
        self,
        work: Callable[[], int],
        kill_after: float | None = None,
        number: int = signal.SIGKILL,
    ) -> int:
        """The exit code of a function in a forked process; negative if a signal ended it."""
        process = self.start(work)
        return self.wait(process, kill_after, number)

    def start(self, work: Callable[[], int]) -> int:
        """Start a function in a forked process, with TMPDIR on another disk in half of them."""
        elsewhere = self.draw.random() < 0.5 and OTHER_DISK.is_dir()
        process = os.fork()
        if process == 0:
            self._child(work, OTHER_DISK if elsewhere else self.folder)
        return process

    def _child(self, work: Callable[[], int], temporary: Path) -> None:
        """Never returns."""
        code = 99
        try:
            os.environ["TMPDIR"] = str(temporary)
            tempfile.tempdir = None
            with (self.folder / "output.txt").open("w") as stream:
                os.dup2(stream.fileno(), 1)
                os.dup2(stream.fileno(), 2)
                code = work()
                sys.stdout.flush()
                sys.stderr.flush()
        finally:
            os._exit(code)

    def wait(
        self, process: int, kill_after: float | None = None, number: int = signal.SIGKILL
    ) -> int:
        """The exit code of a process; after `kill_after` seconds it gets the signal `number`."""
        started = time.monotonic()
        ended = 0
        while not ended:
            time.sleep(0.002)
            ended, status = os.waitpid(process, os.WNOHANG)
            seconds = time.monotonic() - started
            if not ended and kill_after is not None and seconds > kill_after:
                os.kill(process, number)
                kill_after = None
            if not ended and seconds > LONGEST:
                os.kill(process, signal.SIGKILL)
        return os.waitstatus_to_exitcode(status)

    def output(self) -> str:
        """The end of what the last process printed."""
        return (self.folder / "output.txt").read_text(errors="replace")[-400:]

    def fresh_root(self, scenario: scenarios.Scenario) -> None:
        """Empty the root, and copy what the command needs into it."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        scenario.prepare(self.root)


@dataclass
class Undisturbed:
    """What a command leaves, and how long and how many changes it takes."""

    contents: dict[str, bytes]
    changes: int
    seconds: float


def undisturbed(rack: Rack, scenario: scenarios.Scenario) -> Undisturbed:
    """Run a command to its end."""
    rack.fresh_root(scenario)
    report = rack.folder / "changes.txt"

    def run() -> int:
        disk = Disk(rack.root, End.KILL, 0, rack.folder / "disk")
        disk.watch()
        code = scenario.run(rack.root)
        report.write_text(str(disk.changes))
        return code

    started = time.monotonic()
    code = rack.in_fork(run)
    seconds = time.monotonic() - started
    if code != 0:
        raise RuntimeError(f"{scenario.name} fails undisturbed ({code}): {rack.output()}")
    return Undisturbed(scenarios.snapshot(rack.root), int(report.read_text()), seconds)


def end_at_change(
    rack: Rack, scenario: scenarios.Scenario, expected: Undisturbed, change: int, end: End
) -> None:
    """End a command at one of its changes; the one after the last is the end of the command."""
    rack.fresh_root(scenario)
    report = rack.folder / "disk"
    report.unlink(missing_ok=True)

    def run() -> int:
        disk = Disk(rack.root, end, change, report)
        disk.watch()
        code = scenario.run(rack.root)
        disk.cut()
        return code

    rack.in_fork(run)
    if report.exists():
        shutil.rmtree(rack.root)
        restore(rack.root, pickle.loads(report.read_bytes()))
    rack.outcome.counts[end.value] += 1
    what = f"{scenario.name}, {end.value} at change {change} of {expected.changes}"
    if change > expected.changes:
        _compare(rack, scenarios.snapshot(rack.root), expected, f"{what}, before it is resumed")
    _resume(rack, scenario, expected, what)


def end_at_random(
    rack: Rack, scenario: scenarios.Scenario, expected: Undisturbed, number: int
) -> None:
    """Send a signal to a command at a random moment."""
    rack.fresh_root(scenario)
    seconds = rack.draw.uniform(0, expected.seconds)
    code = rack.in_fork(lambda: scenario.run(rack.root), seconds, number)
    name = signal.Signals(number).name
    rack.outcome.counts[name] += 1
    what = f"{scenario.name}, {name} after {seconds:.2f} s"
    if number != signal.SIGKILL and code not in (0, 128 + number, -number):
        rack.outcome.lose(f"{what}: exit code {code}: {rack.output()}")
    if number != signal.SIGKILL and code == -number:
        rack.outcome.counts["before the command had begun"] += 1
    _resume(rack, scenario, expected, what)


def two_at_once(rack: Rack, data: Path, expected: list[Undisturbed]) -> None:
    """Two trainings with different seeds in one directory: one trains, the other is refused."""
    shutil.rmtree(rack.root, ignore_errors=True)
    rack.root.mkdir()
    first, second = rack.draw.sample([0, 1], 2)
    words = [scenarios.training(data, rack.root / "run", seed) for seed in (first, second)]
    rack.outcome.counts["two trainings in one directory"] += 1
    one = rack.start(lambda: run_command(words[0]))
    time.sleep(rack.draw.uniform(0, expected[first].seconds))
    two = rack.start(lambda: run_command(words[1]))
    codes = [rack.wait(one), rack.wait(two)]
    what = f"two trainings in one directory, exit codes {codes}"
    if sorted(codes) != [0, 2]:
        rack.outcome.lose(f"{what}: {rack.output()}")
        return
    winner = (first, second)[codes.index(0)]
    _compare(rack, scenarios.snapshot(rack.root / "run"), expected[winner], what)


def _resume(rack: Rack, scenario: scenarios.Scenario, expected: Undisturbed, what: str) -> None:
    """Continue the command, and compare."""
    code = rack.in_fork(lambda: scenario.resume(rack.root))
    if code != 0:
        rack.outcome.lose(f"{what}: the resumed command ends with {code}: {rack.output()}")
        return
    _compare(rack, scenarios.snapshot(rack.root), expected, what)


def _compare(rack: Rack, found: dict[str, bytes], expected: Undisturbed, what: str) -> None:
    drafts = [name for name in found if "/.part-" in f"/{name}"]
    for name in drafts:
        del found[name]
    command, _, _ = what.partition(",")
    rack.outcome.counts[f"hidden drafts left behind by {command}"] += len(drafts)
    differing = []
    for name in sorted(found.keys() | expected.contents.keys()):
        if found.get(name) != expected.contents.get(name):
            differing.append(name)
    if differing:
        rack.outcome.lose(f"{what}: {len(differing)} files differ, such as {differing[0]}")


def torture(folder: Path, seed: int, changes: int, moments: int, pairs: int) -> Outcome:
    """End every command at up to `changes` of its changes and at `moments` random moments.

    And start `pairs` of trainings in one directory.
    """
    torch.set_num_threads(1)  # a forked process has no other thread
    folder = folder.resolve()
    rack = Rack(folder, random.Random(seed))
    data = scenarios.write_data(folder / "data")
    trained = folder / "trained/run"
    if rack.in_fork(lambda: run_command(scenarios.training(data, trained))):
        raise RuntimeError(f"the training fails undisturbed: {rack.output()}")
    for scenario in scenarios.all_scenarios(data, trained, folder / "study.yaml"):
        _torture_scenario(rack, scenario, changes, moments)
    if pairs:
        expected = [_undisturbed_training(rack, data, seed) for seed in (0, 1)]
        for _ in range(pairs):
            two_at_once(rack, data, expected)
    return rack.outcome


def _torture_scenario(rack: Rack, scenario: scenarios.Scenario, changes: int, moments: int) -> None:
    expected = undisturbed(rack, scenario)
    ends = list(End)
    chosen = _spread(expected.changes, changes)
    for index, change in enumerate(chosen):
        end_at_change(rack, scenario, expected, change, ends[index % len(ends)])
    for end in (End.DATA_LOST, End.NAMES_LOST):
        end_at_change(rack, scenario, expected, expected.changes + 1, end)
    for index in range(moments):
        number = signal.SIGKILL
        if index % 2:
            number = STOP_SIGNALS[index // 2 % len(STOP_SIGNALS)]
        end_at_random(rack, scenario, expected, number)
    counts = f"{len(chosen)} of {expected.changes} changes, {moments} random moments"
    print(f"{scenario.name}: {counts}, {rack.outcome.counts['losses']} losses", flush=True)


def _spread(total: int, count: int) -> list[int]:
    """`count` of the numbers 1 to `total`, evenly spread; all of them if there are no more."""
    if total <= count:
        return list(range(1, total + 1))
    return [1 + (index * total) // count for index in range(count)]


def _undisturbed_training(rack: Rack, data: Path, seed: int) -> Undisturbed:
    shutil.rmtree(rack.root, ignore_errors=True)
    rack.root.mkdir()
    started = time.monotonic()
    rack.in_fork(lambda: run_command(scenarios.training(data, rack.root / "run", seed)))
    seconds = time.monotonic() - started
    return Undisturbed(scenarios.snapshot(rack.root / "run"), 0, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=250, help="of each command, at most")
    parser.add_argument("--moments", type=int, default=12, help="random, of each command")
    parser.add_argument("--pairs", type=int, default=28, help="trainings in one directory")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        outcome = torture(
            Path(folder), options.seed, options.changes, options.moments, options.pairs
        )
    losses = outcome.counts.pop("losses", 0)
    for name, count in sorted(outcome.counts.items()):
        print(f"{name}: {count}")
    kills = sum(outcome.counts[end.value] for end in End)
    kills += sum(outcome.counts[number.name] for number in (signal.SIGKILL, *STOP_SIGNALS))
    print(f"{kills} kills and power cuts, {losses} losses")
    return 1 if losses else 0


if __name__ == "__main__":
    sys.exit(main())
