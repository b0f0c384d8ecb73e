"""Jobs one after the other: while one is worked on, the next is read and the last is written."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from segpl.foundation.errors import UserError

Job = TypeVar("Job")
Input = TypeVar("Input")
Result = TypeVar("Result")
Output = TypeVar("Output")


def run_pipeline(
    jobs: Sequence[Job],
    read: Callable[[Job], Input],
    work: Callable[[Job, Input], Result],
    write: Callable[[Job, Result], Output],
) -> Iterator[tuple[Job, Output | UserError]]:
    """Yield each job with what `write` returned, or with the error that stopped this job alone.

    The jobs keep their order. At most one input waits for work, and one result to be written.
    """
    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(1) as writer:
        reading = _start_reading(reader, read, jobs, 0)
        writing: Future[Output | UserError] | None = None
        for index, job in enumerate(jobs):
            job_input = reading.result()
            reading = _start_reading(reader, read, jobs, index + 1)
            result = _attempt(work, job, job_input)
            del job_input  # a scan takes as much memory as all that is made of it
            if writing:
                yield jobs[index - 1], writing.result()
            writing = writer.submit(_attempt, write, job, result)
            del result
        if writing:
            yield jobs[-1], writing.result()


def _start_reading(
    reader: ThreadPoolExecutor,
    read: Callable[[Job], Input],
    jobs: Sequence[Job],
    index: int,
) -> "Future[Input | UserError]":
    """Read a job in the background. After the last job, the result is a future that never ends."""
    if index == len(jobs):
        return Future()
    return reader.submit(_attempt, read, jobs[index])


def _attempt(
    step: Callable[..., Result],
    job: Job,
    given: Input | UserError | None = None,
) -> Result | UserError:
    """The result of a step, or the error of this step or of an earlier one."""
    if isinstance(given, UserError):
        return given
    try:
        return step(job) if given is None else step(job, given)
    except UserError as error:
        return error
