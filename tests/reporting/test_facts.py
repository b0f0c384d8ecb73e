"""What training recorded, and what is made of runs that were trained before it did."""

import json

import numpy as np
import pandas as pd
import pytest
from made_up_runs import data_folder, run_folder

from segpl.reporting.comparison import print_comparison
from segpl.reporting.facts import GuardAct, derived_acts, derived_use, read_facts
from segpl.reporting.material import gather
from segpl.reporting.page import write_report

LABELS_ALONE = pd.DataFrame({"step": [1, 2], "loss": [0.5, 0.4], "labelled": [0.5, 0.4]})


def test_recorded_facts_are_read_and_not_derived(tmp_path):
    act = {"after_step": 20, "alpha_factor": 0.1, "pseudo_labels": "empty"}
    facts = {"uses_unlabelled": True, "guard": {"on": True, "acts": [act]}, "seconds": 12.5}
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    LABELS_ALONE.assign(alpha_factor=1.0).to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "cost.json").write_text(json.dumps({"seconds_per_step": 9.0}))
    found = read_facts(tmp_path, steps=40)
    assert found.uses_unlabelled is True
    assert found.guard_on is True
    assert found.guard_acts == [GuardAct(20, 0.1)]
    assert found.seconds == 12.5


def test_a_run_without_any_record_is_unknown(tmp_path):
    found = read_facts(tmp_path)
    assert (found.uses_unlabelled, found.guard_on, found.guard_acts, found.seconds) == (
        None,
        None,
        None,
        None,
    )


def test_a_run_that_is_still_training_shows_its_acts_in_the_log(tmp_path):
    (tmp_path / "facts.json").write_text(
        json.dumps({"uses_unlabelled": True, "guard": {"on": True}})
    )
    pd.DataFrame({"step": [1, 2, 3], "alpha_factor": [1.0, 1.0, 0.1]}).to_csv(
        tmp_path / "log.csv", index=False
    )
    assert read_facts(tmp_path).guard_acts == [GuardAct(2, 0.1)]


def test_an_act_in_the_log_came_before_the_step_with_less_alpha():
    log = pd.DataFrame({"step": [1, 2, 3, 4], "alpha_factor": [1.0, 0.1, 0.1, 0.01]})
    assert derived_acts(log) == [GuardAct(1, 0.1), GuardAct(3, 0.01)]
    assert derived_acts(log.assign(alpha_factor=1.0)) == []
    assert derived_acts(log[["step"]]) is None


@pytest.mark.parametrize(
    ("log", "cost", "use"),
    [
        (LABELS_ALONE, {}, False),
        (LABELS_ALONE.assign(loss=[0.5, 0.41]), {}, True),
        (LABELS_ALONE.assign(loss=[0.5, 0.41]), {"flops_unlabelled": 0}, True),
        (LABELS_ALONE[:0], {}, None),
        (pd.DataFrame(), {"flops_unlabelled": 0}, False),
        (pd.DataFrame(), {"flops_unlabelled": 7}, None),
        (pd.DataFrame(), {}, None),
    ],
)
def test_use_of_unlabelled_scans_from_what_earlier_versions_left(log, cost, use):
    assert derived_use(log, cost) is use


def test_seconds_are_those_of_the_median_step(tmp_path):
    (tmp_path / "cost.json").write_text(json.dumps({"seconds_per_step": 0.5}))
    assert read_facts(tmp_path, steps=40).seconds == 20


@pytest.fixture
def earlier_runs(tmp_path):
    """Two methods, without the file of facts."""
    data = data_folder(tmp_path / "data")
    for method in ("supervised", "segpl"):
        for seed in (0, 1):
            run = run_folder(tmp_path / "runs" / f"{method}-{seed}", data, method, seed)
            (run / "facts.json").unlink()
    return tmp_path / "runs"


def test_runs_of_an_earlier_version_are_told_apart_by_their_logs(earlier_runs):
    material = gather([earlier_runs])
    assert material.labels_alone == {"supervised"}
    assert material.baseline == "supervised"
    text = write_report([earlier_runs]).read_text(encoding="utf-8")
    assert "segpl-0 after step 20 (alpha times 0.1)" in text
    assert "Unknown" not in text


def test_runs_without_record_and_log_are_reported_with_what_is_unknown(earlier_runs, capsys):
    for run in earlier_runs.iterdir():
        (run / "log.csv").unlink()
    text = write_report([earlier_runs]).read_text(encoding="utf-8")
    names = "segpl-0, segpl-1, supervised-0, supervised-1"
    assert f"Unknown whether unlabelled scans were used: {names}." in text
    assert f"Unknown whether the guard acted in {names}" in text
    print_comparison([earlier_runs], "supervised")
    printed = capsys.readouterr().out
    assert f"Unknown whether unlabelled scans were used: {names}." in printed
    assert "scans help:" not in printed
    assert "scans hurt:" not in printed
    assert not np.any([run.facts.uses_unlabelled for run in gather([earlier_runs]).runs])


def test_a_guard_that_was_switched_off_is_told(tmp_path):
    run = run_folder(tmp_path / "run", data_folder(tmp_path / "data"))
    (run / "facts.json").write_text(
        json.dumps({"uses_unlabelled": True, "guard": {"on": False, "acts": []}})
    )
    text = write_report([run]).read_text(encoding="utf-8")
    assert "The guard was switched off in run." in text
    assert "The guard never acted" not in text
