"""Progress of a study: a live table in a terminal, plain lines elsewhere."""

import time
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from rich.live import Live
from rich.table import Table

from segpl.foundation.progress import console, format_duration
from segpl.study.jobs import Job
from segpl.study.single_run import failure_reason


class Duration(NamedTuple):
    """How long a successful run took."""

    method: str
    seconds: float


class StudyProgress:
    """Counts the runs that are done, running, failed and left, and estimates the time left."""

    def __init__(self, jobs: dict[Path, Job], done: int, workers: int):
        self.unfinished = dict(jobs)
        self.done = done
        self.failed = 0
        self.total = len(jobs) + done
        self.workers = workers
        self.start_times: dict[Path, float] = {}
        """Of the runs that are running."""
        self.durations: list[Duration] = []
        self.live = Live(
            get_renderable=self.table, console=console, refresh_per_second=2, transient=True
        )

    def __enter__(self) -> "StudyProgress":
        if console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.live.stop()

    def run_started(self, directory: Path) -> None:
        """Count a run as running."""
        self.start_times[directory] = time.monotonic()

    def run_ended(self, directory: Path) -> None:
        """Count a run as done or failed. Failures are always printed; successes only to a file."""
        seconds = time.monotonic() - self.start_times.pop(directory)
        job = self.unfinished.pop(directory)
        reason = failure_reason(directory)
        if reason:
            self.failed += 1
            console.print(f"failed: {directory.name}: {reason}", markup=False)
        else:
            self.done += 1
            self.durations.append(Duration(job.method, seconds))
        if not console.is_terminal:
            line = f"{self.summary()}  ({directory.name}: {seconds:.0f} s)"
            console.print(line, markup=False)

    def summary(self) -> str:
        """The counts and the time left, on one line."""
        running = len(self.start_times)
        waiting = len(self.unfinished) - running
        counts = (
            f"{self.done} of {self.total} runs done, {running} running, "
            f"{self.failed} failed, {waiting} left"
        )
        seconds = self.seconds_left()
        if seconds is None:
            return counts
        return f"{counts}; {format_duration(seconds)} to go"

    def seconds_left(self) -> float | None:
        """An estimate from the runs that have ended; None if there are none."""
        if not self.durations:
            return None
        now = time.monotonic()
        seconds = 0.0
        for directory, job in self.unfinished.items():
            elapsed = now - self.start_times.get(directory, now)
            seconds += max(0.0, self._expected_seconds(job) - elapsed)
        return seconds / self.workers

    def _expected_seconds(self, job: Job) -> float:
        """The mean of the runs of the same method or, without any, of all runs."""
        same_method = [run.seconds for run in self.durations if run.method == job.method]
        if same_method:
            return mean(same_method)
        return mean(run.seconds for run in self.durations)

    def table(self) -> Table:
        """The runs that are running, under the summary."""
        table = Table("running", "for", title=self.summary(), title_justify="left")
        for directory, started in list(self.start_times.items()):
            elapsed = time.monotonic() - started
            table.add_row(directory.name, format_duration(elapsed))
        return table
