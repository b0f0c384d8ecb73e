"""Runs side by side on the terminal: the verdict, the tests, the sizes, and how sure each method is."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml

from segpl.foundation.errors import UserError
from segpl.reporting.comparison import certainty, print_comparison
from segpl.reporting.material import gather
from segpl.reporting.tables import print_summary, read_scores
from segpl.rundir import RUNS_FILE

LEVELS = {"iou": 0.5, "brier": 0.1, "ece": 0.02, "nll": 0.3, "aurc": 0.01}


def write_run(folder, method, seed, bonus, samples=1, alpha=1.0):
    """A scored run of six subjects with two slices each."""
    draw = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    run = {"method": {"name": method, "alpha": alpha}, "seed": seed, "labelled": 2}
    (folder / "run.yaml").write_text(yaml.safe_dump(run))
    facts = {"uses_unlabelled": method != "supervised" and alpha > 0}
    (folder / "facts.json").write_text(json.dumps(facts))
    origin = {"run": folder.name, "method": method, "seed": seed, "labelled": 2}
    rows, images = [], []
    for subject in range(6):
        case = origin | {
            "subject": f"s{subject}",
            "case": f"s{subject}",
            "region": "r",
            "shift": "clean",
            "level": 0.0,
        }
        for metric, level in LEVELS.items():
            value = (
                level + 0.05 * subject + (bonus + 0.002 * draw.normal() if metric == "iou" else 0)
            )
            rows.append(case | {"metric": metric, "value": value})
        images += [
            case | {"metric": "iou", "value": 0.4 + bonus, "image": place, "foreground": share}
            for place, share in enumerate((0.0005, 0.03))
        ]
    suffix = f"-{samples}-samples" if samples > 1 else ""
    pd.DataFrame(rows).to_csv(folder / f"scores{suffix}.csv", index=False)
    pd.DataFrame(images).to_csv(folder / f"images{suffix}.csv", index=False)
    (folder / "cost.json").write_text(json.dumps({"seconds_of_training": 12.0}))
    cost = {"samples": samples, "voxels_per_second": 1e6 / samples}
    (folder / f"prediction_cost{suffix}.json").write_text(json.dumps(cost))


@pytest.fixture
def runs(tmp_path):
    for seed in (0, 1, 2):
        write_run(tmp_path / f"supervised-{seed}", "supervised", seed, 0.0)
        write_run(tmp_path / f"segpl-{seed}", "segpl", seed, 0.1)
    return tmp_path


def test_the_verdict_comes_first_and_its_grounds_follow(runs, capsys):
    print_comparison([runs], "supervised")
    printed = capsys.readouterr().out
    assert printed.startswith("The unlabelled scans help: segpl is")
    assert "6 test subjects, 3 seeds" in printed
    assert "+10.0" in printed
    assert "below 0.1" in printed
    assert "2-4" in printed
    assert "Brier" in printed


def test_labelled_subjects_beyond_the_budget_are_told(runs, capsys):
    use = {"total": 14, "learning": 2, "validation": 12, "extra_validation": True}
    for run in runs.iterdir():
        (run / "split.json").write_text(json.dumps({"labelled_subjects": use}))
    print_comparison([runs], "supervised")
    sentence = "2 labelled subjects to learn from, and 12 further labelled subjects to choose the weights: 14 in all."
    assert capsys.readouterr().out.count(sentence) == 1


def test_runs_with_unlike_validation_are_told_apart(runs, capsys):
    for run in runs.iterdir():
        settings = yaml.safe_load((run / "run.yaml").read_text())
        settings["validation"] = 5 if settings["method"]["name"] == "segpl" else None
        (run / "run.yaml").write_text(yaml.safe_dump(settings))
    print_comparison([runs], "supervised")
    assert (
        "Not only the method differs between the runs at 2 labelled: validation (5, null)."
        in capsys.readouterr().out
    )


def test_runs_may_be_named_one_by_one_or_by_their_folder(runs, capsys):
    print_comparison([runs], "supervised")
    whole = capsys.readouterr().out
    print_comparison([runs / "segpl-0", runs, *sorted(runs.glob("super*"))], "supervised")
    assert capsys.readouterr().out == whole


def test_runs_that_differ_in_more_than_the_method_are_pointed_out(runs, capsys):
    for run in runs.iterdir():
        settings = yaml.safe_load((run / "run.yaml").read_text())
        batch = 1 if run.name == "segpl-2" else 2
        (run / "run.yaml").write_text(yaml.safe_dump(settings | {"batch": batch, "steps": 400}))
    write_run(runs / "unscored", "segpl", 7, 0.0)
    (runs / "unscored/run.yaml").write_text(
        yaml.safe_dump({"method": {"name": "segpl"}, "steps": 7, "labelled": 2})
    )
    for name in ("scores", "images"):
        (runs / f"unscored/{name}.csv").unlink()
    print_comparison([runs], "supervised")
    assert (
        "Not only the method differs between the runs at 2 labelled: batch (1, 2)."
        in capsys.readouterr().out
    )


def test_a_study_gives_its_runs_their_names(tmp_path, capsys):
    """A method with two settings is two methods, and two budgets may have as many labelled subjects."""
    for slices, loss in (("50 slices", 0.1), ("150 slices", 0.0)):
        for seed in (0, 1, 2):
            write_run(tmp_path / "runs" / f"supervised_{slices}_{seed}", "supervised", seed, -loss)
            write_run(
                tmp_path / "runs" / f"control_{slices}_{seed}", "segpl-em", seed, 0.05, alpha=0.0
            )
            write_run(tmp_path / "runs" / f"segpl-em_{slices}_{seed}", "segpl-em", seed, 0.2)
    names = [run.name for run in (tmp_path / "runs").iterdir()]
    write_run(tmp_path / "runs" / "older", "segpl-em", 0, 0.5)
    (tmp_path / RUNS_FILE).write_text(json.dumps({name: name.split("_")[:2] for name in names}))
    print_comparison([tmp_path], "supervised")
    printed = capsys.readouterr().out
    assert "The unlabelled scans help: segpl-em is 30.0 IoU points better" in printed
    assert "The unlabelled scans help: segpl-em is 20.0 IoU points better" in printed
    assert printed.startswith(
        "control is 15.0 IoU points better than supervised training at 2 labelled subjects, 50"
    )
    assert "help: control" not in printed


def test_runs_without_what_predicting_cost_are_compared_all_the_same(runs, capsys):
    for file in runs.glob("*/prediction_cost*.json"):
        file.unlink()
    print_comparison([runs], "supervised")
    printed = capsys.readouterr().out
    assert "IoU points" in printed
    assert "what they cost" not in printed


def test_certainty_has_a_row_for_each_number_of_samples(runs):
    write_run(runs / "segpl-0", "segpl", 0, 0.1, samples=5)
    table = certainty(gather([runs / "segpl-0"]).runs).set_index("samples")
    assert table.loc[1, "brier"] == pytest.approx(0.1 + 0.05 * 2.5)
    assert table.loc[5, "voxels_per_second"] == pytest.approx(2e5)
    assert set(table["seconds_of_training"]) == {12.0}


def test_scores_on_other_data_are_not_mixed_in_and_a_missing_cost_stops_nothing(runs, capsys):
    (runs / "segpl-0/prediction_cost-elsewhere.json").write_text(
        json.dumps({"samples": 1, "voxels_per_second": 1})
    )
    (runs / "segpl-1/cost.json").unlink()
    for seed in (0, 1, 2):
        (runs / f"supervised-{seed}/cost.json").unlink()
    assert len(certainty(gather([runs / "segpl-0"]).runs)) == 1
    print_comparison([runs], "supervised")
    assert "–" in capsys.readouterr().out


def without_scores(*runs):
    for run in runs:
        for file in run.glob("*.csv"):
            file.unlink()


def test_runs_without_scores_are_named_and_the_others_compared(runs, capsys):
    without_scores(runs / "segpl-1")
    print_comparison([runs], "supervised")
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "segpl-1 has no scores and is left out."
    assert "6 test subjects, 2 seeds" in second
    without_scores(runs / "supervised-1")
    print_comparison([runs / "segpl-1", runs], "supervised")
    assert capsys.readouterr().out.startswith(
        "segpl-1 and supervised-1 have no scores and are left out.\n"
    )


def test_a_file_of_scores_without_a_row_holds_no_scores(runs, capsys):
    (runs / "segpl-1/scores.csv").write_text("")
    print_comparison([runs], "supervised")
    assert capsys.readouterr().out.startswith("segpl-1 has no scores and is left out.")


def test_where_no_run_has_scores_there_is_nothing_to_compare(runs):
    without_scores(*runs.iterdir())
    with pytest.raises(
        UserError,
        match=r"segpl-0, .* and supervised-2 have no scores: make them with segpl evaluate",
    ):
        print_comparison([runs], "supervised")


def test_runs_without_a_table_of_images_are_compared_all_the_same(runs, capsys):
    for file in runs.glob("*/images.csv"):
        file.unlink()
    print_comparison([runs], "supervised")
    printed = capsys.readouterr().out
    assert "+10.0" in printed
    assert "by size of the foreground" not in printed


def test_one_test_subject_is_not_called_subjects(runs, capsys):
    for file in runs.glob("*/scores.csv"):
        scores = pd.read_csv(file)
        scores[scores["subject"] == "s0"].to_csv(file, index=False)
    print_summary(read_scores([runs / "segpl-0/scores.csv"]))
    assert "over 1 test subject\n" in capsys.readouterr().out
