"""Reading ahead and writing behind: the same results, sooner, and an error stops only its job."""

import threading

import pytest

from segpl.foundation.errors import UserError
from segpl.prediction.pipeline import run_pipeline


def passed_on(job, value):
    return value


def test_results_come_in_order():
    outcomes = run_pipeline(
        range(5),
        read=lambda job: job + 1,
        work=lambda job, value: 10 * value,
        write=lambda job, value: value + job,
    )
    assert list(outcomes) == [(job, 10 * (job + 1) + job) for job in range(5)]


def test_no_jobs_give_no_results():
    assert list(run_pipeline([], len, len, len)) == []


@pytest.mark.parametrize("failing_stage", ["read", "work", "write"])
def test_an_error_stops_only_its_own_job(failing_stage):
    def stage(name):
        def run(job, value=0):
            if name == failing_stage and job == 2:
                raise UserError("bad")
            return value + 1

        return run

    outcomes = dict(run_pipeline(range(4), stage("read"), stage("work"), stage("write")))
    assert [outcomes[job] for job in (0, 1, 3)] == [3, 3, 3]
    assert str(outcomes[2]) == "bad"


def test_the_next_is_read_and_the_last_is_written_while_one_is_worked_on():
    """Each work waits until the other two have started; otherwise its wait times out."""
    read_started = [threading.Event() for _ in range(3)]
    write_started = [threading.Event() for _ in range(3)]

    def read(job):
        read_started[job].set()
        return job

    def work(job, _):
        if job < 2:
            assert read_started[job + 1].wait(10)
        if job > 0:
            assert write_started[job - 1].wait(10)
        return job

    def write(job, _):
        write_started[job].set()
        return job

    outcomes = run_pipeline(range(3), read, work, write)
    assert [outcome for _, outcome in outcomes] == [0, 1, 2]


def test_at_most_one_is_read_ahead():
    read_jobs = []
    worked_jobs = []

    def read(job):
        read_jobs.append(job)
        return job

    def work(job, _):
        assert len(read_jobs) <= len(worked_jobs) + 2
        worked_jobs.append(job)
        return job

    list(run_pipeline(range(6), read, work, passed_on))
    assert read_jobs == list(range(6))
    assert worked_jobs == list(range(6))


def test_a_bug_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        list(run_pipeline([0, 1], lambda job: 1 / job, passed_on, passed_on))
