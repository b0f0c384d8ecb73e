"""Reading ahead and writing behind: the same results, sooner, and a failure stops nothing but itself."""

import threading

import pytest

from segpl.foundation.errors import UserError
from segpl.prediction.flight import fly


def test_results_come_in_order():
    flown = fly(
        range(5), lambda job: job + 1, lambda job, read: 10 * read, lambda job, found: found + job
    )
    assert list(flown) == [(job, 10 * (job + 1) + job) for job in range(5)]
    assert list(fly([], len, len, len)) == []


@pytest.mark.parametrize("stage", ["read", "work", "write"])
def test_a_failure_is_its_own_jobs_alone(stage):
    def step(name):
        def run(job, given=0):
            if name == stage and job == 2:
                raise UserError("bad")
            return given + 1

        return run

    outcomes = dict(fly(range(4), step("read"), step("work"), step("write")))
    assert [outcomes[job] for job in (0, 1, 3)] == [3, 3, 3]
    assert str(outcomes[2]) == "bad"


def test_the_next_is_read_and_the_last_is_written_while_one_is_worked_on():
    """Each work waits for the two others to begin: were they not at it, the test would end after its timeout."""
    reads, writes = ([threading.Event() for _ in range(3)] for _ in range(2))

    def work(job, _):
        if job < 2:
            assert reads[job + 1].wait(10)
        if job > 0:
            assert writes[job - 1].wait(10)
        return job

    flown = fly(
        range(3), lambda job: reads[job].set() or job, work, lambda job, _: writes[job].set() or job
    )
    assert [outcome for _, outcome in flown] == [0, 1, 2]


def test_no_more_than_one_is_read_ahead():
    read, worked = [], []

    def work(job, _):
        assert len(read) <= len(worked) + 2
        worked.append(job)
        return job

    list(fly(range(6), lambda job: read.append(job) or job, work, lambda job, _: job))
    assert read == worked == list(range(6))


def test_a_mistake_in_the_program_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        list(fly([0, 1], lambda job: 1 / job, lambda job, read: read, lambda job, found: found))
