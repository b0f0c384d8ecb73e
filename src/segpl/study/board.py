"""How far a study is: a live table in a terminal, plain lines elsewhere."""

import time
from pathlib import Path
from statistics import mean
from types import TracebackType

from rich.live import Live
from rich.table import Table

from segpl.foundation.progress import console, in_words
from segpl.study.jobs import Job
from segpl.study.work import failure


class Board:
    """Counts what is done, running, failed and left, and guesses how long the rest takes."""

    def __init__(self, jobs: dict[Path, Job], done: int, workers: int):
        self.left, self.done, self.workers = dict(jobs), done, workers
        self.total, self.failed = len(jobs) + done, 0
        self.running: dict[Path, float] = {}
        self.seconds: list[tuple[str, float]] = []
        self.live = Live(
            get_renderable=self.table, console=console, refresh_per_second=2, transient=True
        )

    def __enter__(self) -> "Board":
        if console.is_terminal:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.live.stop()

    def begun(self, directory: Path) -> None:
        """A run has begun."""
        self.running[directory] = time.monotonic()

    def ended(self, directory: Path) -> None:
        """A run has ended: say so to those who read a file; a failure is said to everybody."""
        seconds = time.monotonic() - self.running.pop(directory)
        job = self.left.pop(directory)
        reason = failure(directory)
        if reason:
            self.failed += 1
            console.print(f"failed: {directory.name}: {reason}", markup=False)
        else:
            self.done += 1
            self.seconds.append((job.method, seconds))
        if not console.is_terminal:
            console.print(f"{self.counts()}  ({directory.name}: {seconds:.0f} s)", markup=False)

    def counts(self) -> str:
        """One line."""
        waiting = len(self.left) - len(self.running)
        said = f"{self.done} of {self.total} runs done, {len(self.running)} running, {self.failed} failed, {waiting} left"
        guess = self.time_left()
        return said if guess is None else f"{said}; {in_words(guess)} to go"

    def time_left(self) -> float | None:
        """As long as the runs of the same method took, or else all runs; while none has ended nothing is known."""
        if not self.seconds:
            return None
        now = time.monotonic()
        spent = {directory: now - started for directory, started in self.running.items()}
        left = (
            max(0.0, self._expected(job) - spent.get(directory, 0.0))
            for directory, job in self.left.items()
        )
        return sum(left) / self.workers

    def _expected(self, job: Job) -> float:
        same = [seconds for method, seconds in self.seconds if method == job.method]
        return mean(same or [seconds for _, seconds in self.seconds])

    def table(self) -> Table:
        """What runs now, under the counts."""
        table = Table("running", "for", title=self.counts(), title_justify="left")
        for directory, started in list(self.running.items()):
            table.add_row(directory.name, in_words(time.monotonic() - started))
        return table
