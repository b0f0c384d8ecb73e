"""The predictions that the page waits for: one at a time, the scan on the screen first."""

import multiprocessing
import threading
from contextlib import suppress
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from typing import Any, NamedTuple

from segpl.data.cases import Case
from segpl.viewer.jobs import Job, Report
from segpl.viewer.percent import curves_file
from segpl.viewer.sources import Source

ENDED = (
    "the process that predicts has ended, perhaps because the scan is too large for the memory: "
    "choose the scan again to try once more"
)
PATIENCE = 1.0
"""Seconds between two looks at whether the process still lives."""


class State(NamedTuple):
    """How far the prediction of a scan is."""

    status: str
    """none, waiting, running, done or failed."""
    progress: float = 0.0
    error: str = ""


class Predictions:
    """Asks another process to predict, and keeps track of how far it is."""

    def __init__(self, source: Source, cache: Path):
        self.source = source
        self.cache = cache
        self._lock = threading.Lock()
        self._waiting: list[Job] = []
        self._running: Job | None = None
        self._states: dict[int, State] = {}
        self._process: multiprocessing.process.BaseProcess | None = None
        self._closed = threading.Event()

    def request(self, number: int, case: Case) -> State:
        """Predict a scan next, unless that is done or under way."""
        with self._lock:
            state = self._state(number)
            if self.source.runs is None or state.status in ("running", "done"):
                return state
            job = Job(number, case.unlabelled())
            self._waiting = [other for other in self._waiting if other.number != number]
            self._waiting.append(job)  # the last request is served first
            self._states[number] = State("waiting")
            self._start()
            return self._states[number]

    def state(self, number: int) -> State:
        """How far the prediction of a scan is."""
        with self._lock:
            return self._state(number)

    def _state(self, number: int) -> State:
        if curves_file(self.cache, number).is_file():
            return State("done", 1.0)
        return self._states.get(number, State("none"))

    def _start(self) -> None:
        """Start the process and the thread that talks to it, unless they run."""
        if self._process is not None and self._process.is_alive():
            self._next_job()
            return
        context = multiprocessing.get_context("spawn")  # a fork would copy the server's threads
        self._jobs = context.Queue()
        reports = context.Queue()
        arguments = (self.source, self.cache, self._jobs, reports)
        self._process = context.Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        listener = threading.Thread(target=self._listen, args=(self._process, reports), daemon=True)
        listener.start()
        self._next_job()

    def _next_job(self) -> None:
        if self._running is None and self._waiting:
            self._running = self._waiting.pop()
            self._states[self._running.number] = State("running")
            self._jobs.put(self._running)

    def _listen(
        self, process: multiprocessing.process.BaseProcess, reports: "Queue[Report]"
    ) -> None:
        """Take note of what the process reports, until it ends."""
        while not self._closed.is_set():
            try:
                report = reports.get(timeout=PATIENCE)
            except Empty:
                if not process.is_alive():
                    self._give_up()
                    return
                continue
            with self._lock:
                self._note(report)

    def _note(self, report: Report) -> None:
        if report.error:
            self._states[report.number] = State("failed", 0.0, report.error)
        elif report.progress < 1:
            self._states[report.number] = State("running", report.progress)
            return
        else:
            self._states[report.number] = State("done", 1.0)
        self._running = None
        self._next_job()

    def _give_up(self) -> None:
        """The process has ended by itself: the scan that it was at has failed."""
        with self._lock:
            if self._running is not None:
                self._states[self._running.number] = State("failed", 0.0, ENDED)
            self._running = None

    def close(self) -> None:
        """End the process; a prediction under way is lost."""
        self._closed.set()
        if self._process is not None:
            with suppress(ValueError, AttributeError):
                self._process.terminate()
                self._process.join(PATIENCE)


def _work(*arguments: Any) -> None:
    """Runs in the process that predicts; only that one imports torch."""
    from segpl.viewer.worker import work

    work(*arguments)
