"""A study with pretend workers: which runs are repeated, and how failures are reported."""

import pandas as pd
import pytest
from folder_in_use import folder_in_use
from study_files import read_tables, replace_text

from segpl.foundation.errors import UserError
from segpl.study.running import run_study


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def comparison(out):
    return pd.read_csv(out / "tables/comparison.csv").set_index("method")


def comparison_text(out):
    return (out / "tables/comparison.md").read_text(encoding="utf-8")


def test_a_study_writes_tables_and_names_them(study_file, out, pretend, capsys):
    assert run_study(study_file, out) == 0
    assert f"table: {out / 'tables/comparison.md'}" in capsys.readouterr().out
    assert set(read_tables(out)) == {
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


def test_the_table_has_the_mean_and_the_p_value_of_the_scores(study_file, out, pretend):
    run_study(study_file, out)
    table = comparison(out)
    mean_of_seeds = (0.5 + 0.51) / 2
    subject_a_is_worse = 0.1 / 3
    expected = mean_of_seeds - subject_a_is_worse
    assert table.loc["supervised", "iou_mean"] == pytest.approx(expected)
    # All three subjects are better: 2 of the 2^3 signs are as extreme.
    assert table.loc["segpl alpha=0.1", "p"] == pytest.approx(2 / 8)


def test_finished_runs_are_not_repeated(study_file, out, pretend):
    run_study(study_file, out)
    before = read_tables(out)
    run_study(study_file, out)
    assert len(pretend.worked()) == 4
    assert read_tables(out) == before


def test_changing_the_file_runs_only_what_changed(study_file, out, pretend):
    run_study(study_file, out)
    pretend.forget()
    replace_text(study_file, "alpha: 0.1", "alpha: 0.2")
    run_study(study_file, out)
    methods = [name.partition("_")[0] for name in pretend.worked()]
    assert methods == ["segpl-alpha=0.2", "segpl-alpha=0.2"]
    assert list(comparison(out).index) == ["supervised", "segpl alpha=0.2"]


def test_changing_the_file_back_uses_the_old_runs_again(study_file, out, pretend):
    run_study(study_file, out)
    replace_text(study_file, "alpha: 0.1", "alpha: 0.2")
    run_study(study_file, out)
    assert len(list((out / "runs").iterdir())) == 6, "old runs stay"
    pretend.forget()
    replace_text(study_file, "alpha: 0.2", "alpha: 0.1")
    run_study(study_file, out)
    assert pretend.worked() == []


def test_other_shifts_are_scored_and_old_ones_leave_the_tables(study_file, out, pretend):
    run_study(study_file, out)
    replace_text(study_file, "ood=0.1", "fgsm=0.2")
    run_study(study_file, out)
    assert len(pretend.worked()) == 8
    robustness = pd.read_csv(out / "tables/robustness.csv")
    assert set(robustness["shift"]) == {"clean", "fgsm"}


FAILURES = [
    ("fail", "the scanner was on fire"),
    ("die", "was ended by SIGKILL, as the system does when memory"),
]


@pytest.mark.parametrize(("fate", "reason"), FAILURES)
def test_a_failed_run_is_printed_kept_and_counted(fate, reason, study_file, out, pretend, capsys):
    pretend.plan({"segpl 1": fate})
    assert run_study(study_file, out) == 1
    assert reason in capsys.readouterr().err
    (failed,) = out.glob("runs/*/failed.txt")
    assert reason in failed.read_text(encoding="utf-8")
    assert list(comparison(out)["seeds"]) == [2, 1]
    assert list(comparison(out)["failed"]) == [0, 1]
    text = comparison_text(out)
    assert "1 of 2 runs of segpl alpha=0.1 at 1 failed." in text
    assert "| 1 of 2 |" in text


@pytest.mark.parametrize(("fate", "reason"), FAILURES)
def test_only_the_failed_run_is_tried_again(fate, reason, study_file, out, pretend):
    pretend.plan({"segpl 1": fate})
    run_study(study_file, out)
    pretend.plan({})
    pretend.forget()
    assert run_study(study_file, out) == 0
    assert len(pretend.worked()) == 1
    assert not list(out.glob("runs/*/failed.txt"))
    assert list(comparison(out)["seeds"]) == [2, 2]


def test_tables_do_not_remember_failures(study_file, out, pretend, tmp_path):
    run_study(study_file, tmp_path / "undisturbed")
    pretend.plan({"supervised 0": "die", "segpl 1": "fail"})
    run_study(study_file, out)
    assert read_tables(out) != read_tables(tmp_path / "undisturbed")
    pretend.plan({})
    run_study(study_file, out)
    assert read_tables(out) == read_tables(tmp_path / "undisturbed")


def test_when_all_runs_fail_there_are_no_tables(study_file, out, pretend):
    runs = ("supervised 0", "supervised 1", "segpl 0", "segpl 1")
    pretend.plan(dict.fromkeys(runs, "fail"))
    with pytest.raises(UserError, match="no run has succeeded"):
        run_study(study_file, out)


def test_two_workers_give_the_same_tables(study_file, out, pretend, tmp_path):
    run_study(study_file, tmp_path / "one")
    run_study(study_file, out, workers=2)
    assert read_tables(out) == read_tables(tmp_path / "one")


def test_two_studies_do_not_share_a_folder(study_file, out, pretend):
    message = "out is in use by another segpl command"
    with folder_in_use(out), pytest.raises(UserError, match=message):
        run_study(study_file, out)
    assert run_study(study_file, out) == 0, "it is free again"


def test_a_budget_of_time_leaves_out_whole_seeds(study_file, out, pretend, capsys):
    """A pretend training takes 5 s + 1 s per step, a scoring 2 s + 1 s per shift.

    Probes of 2 and 6 steps: a step takes 0.5 s by cost.json, so a validation takes 2 s and the
    start 4 s. A run then takes 4 + 4 x 0.5 + 2 x 2 s to train and 2 + 1 s to score each of two
    cases: 16 s. Six runs take 96 s; four of them fit into 70 s.
    """
    replace_text(study_file, "seeds: [0, 1]", "seeds: [0, 1, 2]")
    run_study(study_file, out, minutes=70 / 60)
    printed = capsys.readouterr().err
    assert "supervised: a run takes 16 s" in printed
    assert "all 6 runs take 2 min from here" in printed
    assert "2 of 6 runs were left out for lack of time: seeds 2." in printed
    assert "seeds 2. Seeds are left out first, the last listed first" in comparison_text(out)
    assert list(comparison(out)["wanted"]) == [2, 2]


def test_finished_runs_cost_nothing_of_a_budget_of_time(study_file, out, pretend, capsys):
    run_study(study_file, out)
    replace_text(study_file, "seeds: [0, 1]", "seeds: [0, 1, 2]")
    pretend.forget()
    capsys.readouterr()
    run_study(study_file, out, minutes=1)  # the four finished runs took 5 + 4 + 2 + 1 s each
    assert "all 6 runs take 24 s from here" in capsys.readouterr().err
    assert len(pretend.worked()) == 2
    assert list(comparison(out)["wanted"]) == [3, 3]


def test_a_probe_that_fails_says_why(study_file, out, pretend):
    pretend.plan({"segpl 0": "fail"})
    message = "cannot be estimated because a short probe failed: the scanner was on fire"
    with pytest.raises(UserError, match=message):
        run_study(study_file, out, minutes=1)


def test_the_tables_say_what_the_labelled_subjects_were_used_for(undisturbed):
    _, out = undisturbed
    note = (
        "- 1 labelled subject to learn from and none to choose the weights, "
        "which are those of the last step."
    )
    assert note in comparison_text(out)
