"""A study with workers that pretend: what is done again, what is not, and what is said of failures."""

import json

import pandas as pd
import pytest
from filelock import FileLock

from segpl.foundation.errors import UserError
from segpl.study.running import run_study


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def tables(out):
    return {file.name: file.read_bytes() for file in (out / "tables").iterdir()}


def comparison(out):
    return pd.read_csv(out / "tables/comparison.csv").set_index("method")


def test_a_study_ends_with_tables(study_file, out, pretend, capsys):
    assert run_study(study_file, out) == 0
    assert f"table: {out / 'tables/comparison.md'}" in capsys.readouterr().out
    assert set(tables(out)) == {
        "robustness.csv",
        "comparison.md",
        "comparison.tex",
        "comparison.csv",
        "comparison.table.json",
    }
    assert {file.name for file in out.glob("cost.*")} == {
        "cost.md",
        "cost.tex",
        "cost.csv",
        "cost.table.json",
    }
    found = comparison(out)
    assert found.loc["supervised", "iou_mean"] == pytest.approx(
        0.505 - 0.1 / 3
    )  # seeds 0 and 1, subjects a, b and c
    assert found.loc["segpl alpha=0.1", "p"] == pytest.approx(
        0.25
    )  # three subjects, all better: 2 / 2^3


def test_what_is_done_is_not_done_again(study_file, out, pretend):
    run_study(study_file, out)
    before = tables(out)
    run_study(study_file, out)
    assert len(pretend[1].read_text(encoding="utf-8").splitlines()) == 4
    assert tables(out) == before


def test_changing_the_file_runs_only_what_changed(study_file, out, pretend):
    _, worked = pretend
    run_study(study_file, out)
    worked.write_text("")
    study_file.write_text(
        study_file.read_text(encoding="utf-8").replace("alpha: 0.1", "alpha: 0.2")
    )
    run_study(study_file, out)
    assert [name.partition("_")[0] for name in worked.read_text(encoding="utf-8").splitlines()] == [
        "segpl-alpha=0.2"
    ] * 2
    assert list(comparison(out).index) == ["supervised", "segpl alpha=0.2"]
    assert len(list((out / "runs").iterdir())) == 6, "old runs stay"
    worked.write_text("")
    study_file.write_text(
        study_file.read_text(encoding="utf-8").replace("alpha: 0.2", "alpha: 0.1")
    )
    run_study(study_file, out)
    assert worked.read_text(encoding="utf-8") == "", "and are taken up again"


def test_other_shifts_are_scored_anew_and_stale_ones_leave_the_tables(study_file, out, pretend):
    run_study(study_file, out)
    study_file.write_text(study_file.read_text(encoding="utf-8").replace("ood=0.1", "fgsm=0.2"))
    run_study(study_file, out)
    assert len(pretend[1].read_text(encoding="utf-8").splitlines()) == 8
    assert set(pd.read_csv(out / "tables/robustness.csv")["shift"]) == {"clean", "fgsm"}


@pytest.mark.parametrize(
    ("fate", "reason"),
    [
        ("fail", "the scanner was on fire"),
        ("die", "was ended by SIGKILL, as the system does when memory"),
    ],
)
def test_a_failed_run_is_kept_counted_and_tried_again(
    fate, reason, study_file, out, pretend, capsys
):
    plan, worked = pretend
    plan.write_text(json.dumps({"segpl 1": fate}))
    assert run_study(study_file, out) == 1
    assert reason in capsys.readouterr().err
    (failed,) = out.glob("runs/*/failed.txt")
    assert reason in failed.read_text(encoding="utf-8")
    found = comparison(out)
    assert list(found["seeds"]) == [2, 1]
    assert list(found["failed"]) == [0, 1]
    text = (out / "tables/comparison.md").read_text(encoding="utf-8")
    assert "1 of 2 runs of segpl alpha=0.1 at 1 failed." in text
    assert "| 1 of 2 |" in text
    plan.write_text("{}")
    worked.write_text("")
    assert run_study(study_file, out) == 0
    assert len(worked.read_text(encoding="utf-8").splitlines()) == 1
    assert not failed.exists()
    assert list(comparison(out)["seeds"]) == [2, 2]


def test_tables_do_not_remember_failures(study_file, out, pretend, tmp_path):
    run_study(study_file, tmp_path / "undisturbed")
    pretend[0].write_text(json.dumps({"supervised 0": "die", "segpl 1": "fail"}))
    run_study(study_file, out)
    assert tables(out) != tables(tmp_path / "undisturbed")
    pretend[0].write_text("{}")
    run_study(study_file, out)
    assert tables(out) == tables(tmp_path / "undisturbed")


def test_when_all_runs_fail_there_are_no_tables(study_file, out, pretend):
    pretend[0].write_text(
        json.dumps(
            {f"{method} {seed}": "fail" for method in ("supervised", "segpl") for seed in (0, 1)}
        )
    )
    with pytest.raises(UserError, match="no run has succeeded"):
        run_study(study_file, out)


def test_two_workers_give_the_same_tables(study_file, out, pretend, tmp_path):
    run_study(study_file, tmp_path / "one")
    run_study(study_file, out, workers=2)
    assert tables(out) == tables(tmp_path / "one")


def test_two_studies_do_not_share_a_folder(study_file, out, pretend):
    out.mkdir()
    lock = FileLock(out / ".lock")
    with lock, pytest.raises(UserError, match="another study is at work there"):
        run_study(study_file, out)
    assert run_study(study_file, out) == 0, "it is free again"


def test_a_budget_of_time_says_what_it_costs_and_leaves_out_whole_seeds(
    study_file, out, pretend, capsys
):
    """The worker says 5 s and one for each step of a training, 2 s and one for each shift of a scoring."""
    study_file.write_text(
        study_file.read_text(encoding="utf-8").replace("seeds: [0, 1]", "seeds: [0, 1, 2]")
    )
    # Probes of 2 and 6 steps: a step takes 0.5 s by cost.json, so a validation 2 s and the start 4 s.
    # A run: 4 + 4 x 0.5 + 2 x 2 to train, 2 + 1 to score each of two cases: 16 s. Six are 96 s; 70 s hold four.
    run_study(study_file, out, minutes=70 / 60)
    said = capsys.readouterr().err
    assert "supervised: a run takes 16 s" in said
    assert "all 6 runs take 2 min from here" in said
    assert "2 of 6 runs were left out for want of time: seeds 2." in said
    text = (out / "tables/comparison.md").read_text(encoding="utf-8")
    assert "seeds 2. Seeds are left out first, the last listed first" in text
    assert list(comparison(out)["wanted"]) == [2, 2]
    pretend[1].write_text("")
    run_study(
        study_file, out, minutes=1
    )  # four are done, and took 4 + 5 + 3 s each: what is left fits
    assert "all 6 runs take 24 s from here" in capsys.readouterr().err
    assert len(pretend[1].read_text(encoding="utf-8").splitlines()) == 2
    assert list(comparison(out)["wanted"]) == [3, 3]


def test_a_probe_that_fails_says_why(study_file, out, pretend):
    pretend[0].write_text(json.dumps({"segpl 0": "fail"}))
    with pytest.raises(
        UserError,
        match="cannot be estimated, because a short probe failed: the scanner was on fire",
    ):
        run_study(study_file, out, minutes=1)


def test_the_tables_say_what_the_labelled_subjects_were_used_for(undisturbed):
    _, out = undisturbed
    text = (out / "tables/comparison.md").read_text(encoding="utf-8")
    assert (
        "- 1 labelled subject to learn from and none to choose the weights, which are those of the last step."
        in text
    )
