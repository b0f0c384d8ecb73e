"""What a study costs, and the rule by which it is reduced to a budget of time."""

from dataclasses import replace

import pytest
from study_files import replace_text

from segpl.foundation.errors import UserError
from segpl.study.estimate import extrapolate, largest_that_fits, reduced_studies


@pytest.fixture
def jobs(study_file, jobs_of):
    """Two methods with two budgets and four seeds."""
    replace_text(study_file, "seeds: [0, 1]", "seeds: [7, 5, 9, 3]")
    budgets = "budgets: [1, {label: all, labelled: 1, steps: 3}]"
    replace_text(study_file, "budgets: [1]", budgets)
    return jobs_of(study_file)


def budgets_and_seeds(jobs):
    """Which budgets and seeds a part of a study has; it must have both methods with each."""
    budgets = list(dict.fromkeys(job.budget for job in jobs))
    seeds = list(dict.fromkeys(job.seed for job in jobs))
    assert len(jobs) == 2 * len(budgets) * len(seeds)
    return budgets, seeds


def test_seeds_go_before_budgets_and_methods_stay_together(jobs):
    assert [budgets_and_seeds(part) for part in reduced_studies(jobs)] == [
        (["1", "all"], [7, 5, 9, 3]),
        (["1", "all"], [7, 5, 9]),
        (["1", "all"], [7, 5]),
        (["1"], [7, 5]),
        (["1"], [7]),
    ]


def test_a_study_of_one_seed_is_reduced_by_budgets_alone(jobs):
    one_seed = [job for job in jobs if job.seed == 7]
    assert [budgets_and_seeds(part) for part in reduced_studies(one_seed)] == [
        (["1", "all"], [7]),
        (["1"], [7]),
    ]


@pytest.mark.parametrize(
    ("seconds", "kept"),
    [
        (120, (["1", "all"], [7, 5, 9, 3])),
        (119, (["1", "all"], [7, 5, 9])),
        (39, (["1"], [7, 5])),
        (0, (["1"], [7])),
    ],
)
def test_the_largest_part_that_fits_is_kept_and_finished_runs_cost_nothing(seconds, kept, jobs):
    left = {job.name: 0.0 if job.seed == 7 else 10.0 for job in jobs}
    assert budgets_and_seeds(largest_that_fits(jobs, left, seconds)) == kept


def test_when_nothing_fits_the_least_cost_is_named(jobs):
    left = {job.name: 100.0 for job in jobs}
    with pytest.raises(UserError, match="even one seed of one budget takes 4 minutes"):
        largest_that_fits(jobs, left, 199)


def test_two_probes_separate_start_steps_validations_and_scoring(jobs):
    """A start of 3 s, steps of 0.2 s, validations of 5 s; 7 s a case and 1.5 s for each shift."""
    run = replace(jobs[0].run, steps=101, validate_every=50)
    short = {"training": 3 + 2 * 0.2 + 5, "evaluation": 7.0}
    long = {"training": 3 + 6 * 0.2 + 2 * 5, "evaluation": 7 + 1.5}
    seconds = extrapolate(short, long, 0.2, run, cases=4, levels=6)
    training = 3 + 101 * 0.2 + 3 * 5
    scoring = 4 * (7 + 6 * 1.5)
    assert seconds == pytest.approx(training + scoring)


def test_noise_in_the_probes_makes_no_time_negative(jobs):
    run = replace(jobs[0].run, steps=10)
    short = {"training": 9.0, "evaluation": 3.0}
    long = {"training": 2.0, "evaluation": 1.0}
    seconds = extrapolate(short, long, 0.1, run, cases=1, levels=5)
    assert seconds == pytest.approx(9 - 0.2 + 1 + 3)
