"""Facts that training recorded, and facts that are derived for runs of earlier versions."""

import json

import pandas as pd
import pytest
from made_up_runs import data_folder, run_folder

from segpl.reporting.comparison import print_comparison
from segpl.reporting.facts import Facts, GuardAct, derived_acts, derived_use, read_facts
from segpl.reporting.material import gather
from segpl.reporting.page import write_report
from segpl.rundir import COST_FILE, FACTS_FILE, LOG_FILE

LABELS_ONLY = pd.DataFrame({"step": [1, 2], "loss": [0.5, 0.4], "labelled": [0.5, 0.4]})
WITH_UNLABELLED = LABELS_ONLY.assign(loss=[0.5, 0.41])


def write_json(file, contents):
    file.write_text(json.dumps(contents))


def test_recorded_facts_are_read_and_not_derived(tmp_path):
    act = {"after_step": 20, "alpha_factor": 0.1, "pseudo_labels": "empty"}
    facts = {"uses_unlabelled": True, "guard": {"on": True, "acts": [act]}, "seconds": 12.5}
    write_json(tmp_path / FACTS_FILE, facts)
    LABELS_ONLY.assign(alpha_factor=1.0).to_csv(tmp_path / LOG_FILE, index=False)
    write_json(tmp_path / COST_FILE, {"seconds_per_step": 9.0})
    result = read_facts(tmp_path, steps=40)
    assert result.uses_unlabelled is True
    assert result.guard_on is True
    assert result.guard_acts == [GuardAct(20, 0.1)]
    assert result.seconds == 12.5


def test_without_any_record_all_facts_are_unknown(tmp_path):
    unknown = Facts(uses_unlabelled=None, guard_on=None, guard_acts=None, seconds=None)
    assert read_facts(tmp_path) == unknown


def test_a_run_that_is_still_training_shows_its_acts_in_the_log(tmp_path):
    write_json(tmp_path / FACTS_FILE, {"uses_unlabelled": True, "guard": {"on": True}})
    log = pd.DataFrame({"step": [1, 2, 3], "alpha_factor": [1.0, 1.0, 0.1]})
    log.to_csv(tmp_path / LOG_FILE, index=False)
    assert read_facts(tmp_path).guard_acts == [GuardAct(2, 0.1)]


def test_an_act_is_followed_by_the_step_with_a_smaller_alpha():
    log = pd.DataFrame({"step": [1, 2, 3, 4], "alpha_factor": [1.0, 0.1, 0.1, 0.01]})
    assert derived_acts(log) == [GuardAct(1, 0.1), GuardAct(3, 0.01)]


def test_a_constant_alpha_means_no_act():
    log = pd.DataFrame({"step": [1, 2], "alpha_factor": [1.0, 1.0]})
    assert derived_acts(log) == []


def test_without_a_column_for_alpha_the_acts_are_unknown():
    assert derived_acts(pd.DataFrame({"step": [1, 2]})) is None


@pytest.mark.parametrize(
    ("log", "cost", "use"),
    [
        (LABELS_ONLY, {}, False),
        (WITH_UNLABELLED, {}, True),
        (WITH_UNLABELLED, {"flops_unlabelled": 0}, True),
        (LABELS_ONLY[:0], {}, None),
        (pd.DataFrame(), {"flops_unlabelled": 0}, False),
        (pd.DataFrame(), {"flops_unlabelled": 7}, None),
        (pd.DataFrame(), {}, None),
    ],
)
def test_use_of_unlabelled_scans_is_derived_from_log_and_cost(log, cost, use):
    assert derived_use(log, cost) is use


def test_seconds_are_those_of_the_median_step(tmp_path):
    write_json(tmp_path / COST_FILE, {"seconds_per_step": 0.5})
    assert read_facts(tmp_path, steps=40).seconds == 20


@pytest.fixture
def earlier_runs(tmp_path):
    """Runs of two methods without recorded facts."""
    data = data_folder(tmp_path / "data")
    for method in ("supervised", "segpl"):
        for seed in (0, 1):
            run = run_folder(tmp_path / "runs" / f"{method}-{seed}", data, method, seed)
            (run / FACTS_FILE).unlink()
    return tmp_path / "runs"


def test_the_baseline_of_earlier_runs_is_derived_from_their_logs(earlier_runs):
    material = gather([earlier_runs])
    assert material.labels_only == {"supervised"}
    assert material.baseline == "supervised"


def test_the_report_on_earlier_runs_shows_the_acts_in_their_logs(earlier_runs):
    text = write_report([earlier_runs]).read_text(encoding="utf-8")
    assert "segpl-0 after step 20 (alpha times 0.1)" in text
    assert "Unknown" not in text


@pytest.fixture
def runs_without_logs(earlier_runs):
    for run in earlier_runs.iterdir():
        (run / LOG_FILE).unlink()
    return earlier_runs


UNKNOWN_RUNS = "segpl-0, segpl-1, supervised-0, supervised-1"


def test_without_records_and_logs_nothing_is_known_about_unlabelled_scans(runs_without_logs):
    uses = [run.facts.uses_unlabelled for run in gather([runs_without_logs]).runs]
    assert uses == [None] * 4


def test_the_report_names_the_runs_about_which_nothing_is_known(runs_without_logs):
    text = write_report([runs_without_logs]).read_text(encoding="utf-8")
    assert f"Unknown whether unlabelled scans were used: {UNKNOWN_RUNS}." in text
    assert f"Unknown whether the guard intervened in {UNKNOWN_RUNS}" in text


def test_the_comparison_has_no_verdict_on_scans_whose_use_is_unknown(runs_without_logs, capsys):
    print_comparison([runs_without_logs], "supervised")
    printed = capsys.readouterr().out
    assert f"Unknown whether unlabelled scans were used: {UNKNOWN_RUNS}." in printed
    assert "scans help:" not in printed
    assert "scans hurt:" not in printed


def test_the_report_says_that_the_guard_was_switched_off(tmp_path):
    run = run_folder(tmp_path / "run", data_folder(tmp_path / "data"))
    facts = {"uses_unlabelled": True, "guard": {"on": False, "acts": []}}
    write_json(run / FACTS_FILE, facts)
    text = write_report([run]).read_text(encoding="utf-8")
    assert "The guard was switched off in run." in text
    assert "The guard never intervened" not in text
