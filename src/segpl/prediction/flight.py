"""Many scans one after the other: while one is in the network, the next is read and the last is written."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from segpl.foundation.errors import UserError

Job = TypeVar("Job")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


def fly(
    jobs: Sequence[Job],
    read: Callable[[Job], A],
    work: Callable[[Job, A], B],
    write: Callable[[Job, B], C],
) -> Iterator[tuple[Job, C | UserError]]:
    """What became of each job, in their order. At most one waits to be worked on and one to be written."""
    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(1) as writer:
        reading = _queue(reader, read, jobs[:1])
        writing: Future[C | UserError] | None = None
        for place, job in enumerate(jobs):
            scan = reading.result()
            reading = _queue(reader, read, jobs[place + 1 : place + 2])
            found = _attempt(work, job, scan)
            del scan  # a scan is as large as all that is made of it
            if writing:
                yield jobs[place - 1], writing.result()
            writing = writer.submit(_attempt, write, job, found)
            del found
        if writing:
            yield jobs[-1], writing.result()


def _queue(
    reader: ThreadPoolExecutor, read: Callable[[Job], A], jobs: Sequence[Job]
) -> "Future[A | UserError]":
    return reader.submit(_attempt, read, jobs[0]) if jobs else Future()


def _attempt(step: Callable[..., A], job: Job, given: B | UserError | None = None) -> A | UserError:
    """The step's result, or why this job cannot go on: the others can."""
    if isinstance(given, UserError):
        return given
    try:
        return step(job) if given is None else step(job, given)
    except UserError as error:
        return error
