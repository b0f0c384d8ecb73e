"""What a study costs, and the rule by which it is cut to a budget of time."""

from dataclasses import replace

import pytest

from segpl.foundation.errors import UserError
from segpl.study.estimate import extrapolate, fitting, parts


@pytest.fixture
def jobs(study_file, jobs_of):
    """Two methods with two budgets and four seeds."""
    text = study_file.read_text(encoding="utf-8").replace("seeds: [0, 1]", "seeds: [7, 5, 9, 3]")
    study_file.write_text(
        text.replace("budgets: [1]", "budgets: [1, {label: all, labelled: 1, steps: 3}]")
    )
    return jobs_of(study_file)


def shape(part):
    """Which budgets and seeds a part has, if it has both methods with each."""
    budgets, seeds = ({getattr(job, key): None for job in part} for key in ("budget", "seed"))
    assert len(part) == 2 * len(budgets) * len(seeds)
    return list(budgets), list(seeds)


def test_seeds_go_before_budgets_and_methods_stay_together(jobs):
    assert [shape(part) for part in parts(jobs)] == [
        (["1", "all"], [7, 5, 9, 3]),
        (["1", "all"], [7, 5, 9]),
        (["1", "all"], [7, 5]),
        (["1"], [7, 5]),
        (["1"], [7]),
    ]


def test_a_single_seed_is_cut_by_budgets_alone(jobs):
    assert [shape(part) for part in parts([job for job in jobs if job.seed == 7])] == [
        (["1", "all"], [7]),
        (["1"], [7]),
    ]


def test_the_largest_part_that_fits_is_kept_and_what_is_done_costs_nothing(jobs):
    left = {job.name: 0.0 if job.seed == 7 else 10.0 for job in jobs}
    assert shape(fitting(jobs, left, 120))[1] == [7, 5, 9, 3]
    assert shape(fitting(jobs, left, 119))[1] == [7, 5, 9]
    assert shape(fitting(jobs, left, 39)) == (["1"], [7, 5])
    assert shape(fitting(jobs, left, 0)) == (["1"], [7])


def test_when_nothing_fits_the_least_is_named(jobs):
    with pytest.raises(UserError, match="even one seed of one budget takes 4 minutes"):
        fitting(jobs, {job.name: 100.0 for job in jobs}, 199)


def test_two_probes_tell_start_steps_validations_and_scoring_apart(jobs):
    """A start of 3 s, steps of 0.2 s, validations of 5 s, scoring of 7 s a case and 1.5 s for each shift."""
    run = replace(jobs[0].run, steps=101, validate_every=50)
    short = {"training": 3 + 2 * 0.2 + 5, "evaluation": 7.0}
    long = {"training": 3 + 6 * 0.2 + 2 * 5, "evaluation": 7 + 1.5}
    seconds = extrapolate(short, long, 0.2, run, cases=4, levels=6)
    assert seconds == pytest.approx(3 + 101 * 0.2 + 3 * 5 + 4 * (7 + 6 * 1.5))


def test_noise_in_the_probes_makes_no_time_negative(jobs):
    short, long = {"training": 9.0, "evaluation": 3.0}, {"training": 2.0, "evaluation": 1.0}
    assert extrapolate(
        short, long, 0.1, replace(jobs[0].run, steps=10), cases=1, levels=5
    ) == pytest.approx(9 - 0.2 + 1 + 3)
