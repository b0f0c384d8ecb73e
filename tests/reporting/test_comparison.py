"""Runs side by side on the terminal: the verdict, the tests, the sizes, and calibration."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml

from segpl.foundation.errors import UserError
from segpl.reporting.comparison import comparison_record, print_comparison, uncertainty
from segpl.reporting.material import gather
from segpl.rundir import COST_FILE, FACTS_FILE, RUN_FILE, RUNS_FILE, SPLIT_FILE, scoring_files

MEANS = {"iou": 0.5, "brier": 0.1, "ece": 0.02, "nll": 0.3, "aurc": 0.01}
SUBJECTS = 6
FOREGROUND = (0.0005, 0.03)
"""The share of foreground in the two slices of a subject."""


def write_run(folder, method, seed, bonus, samples=1, alpha=1.0):
    """A scored run of six subjects with two slices each. `bonus` is added to every IoU."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"method": {"name": method, "alpha": alpha}, "seed": seed, "labelled": 2}
    (folder / RUN_FILE).write_text(yaml.safe_dump(settings))
    facts = {"uses_unlabelled": method != "supervised" and alpha > 0}
    write_json(folder / FACTS_FILE, facts)
    write_json(folder / COST_FILE, {"seconds_of_training": 12.0})
    files = scoring_files(folder, f"-{samples}-samples" if samples > 1 else "")
    origin = {"run": folder.name, "method": method, "seed": seed, "labelled": 2}
    score_rows(origin, bonus).to_csv(files.scores, index=False)
    image_rows(origin, bonus).to_csv(files.images, index=False)
    prediction_cost = {"samples": samples, "voxels_per_second": 1e6 / samples}
    write_json(files.prediction_cost, prediction_cost)


def score_rows(origin, bonus):
    draw = np.random.default_rng(origin["seed"])
    rows = []
    for subject in range(SUBJECTS):
        for metric, mean in MEANS.items():
            value = mean + 0.05 * subject
            if metric == "iou":
                value += bonus + 0.002 * draw.normal()
            rows.append(case_of(origin, subject) | {"metric": metric, "value": value})
    return pd.DataFrame(rows)


def image_rows(origin, bonus):
    rows = []
    for subject in range(SUBJECTS):
        for image, share in enumerate(FOREGROUND):
            scores = {"metric": "iou", "value": 0.4 + bonus, "image": image, "foreground": share}
            rows.append(case_of(origin, subject) | scores)
    return pd.DataFrame(rows)


def case_of(origin, subject):
    name = f"s{subject}"
    return origin | {"subject": name, "case": name, "region": "r", "shift": "clean", "level": 0.0}


def write_json(file, contents):
    file.write_text(json.dumps(contents))


def change_settings(run, **changes):
    file = run / RUN_FILE
    settings = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump(settings | changes))


def remove_scores(*runs):
    for run in runs:
        for file in run.glob("*.csv"):
            file.unlink()


@pytest.fixture
def runs(tmp_path):
    for seed in (0, 1, 2):
        write_run(tmp_path / f"supervised-{seed}", "supervised", seed, 0.0)
        write_run(tmp_path / f"segpl-{seed}", "segpl", seed, 0.1)
    return tmp_path


def test_the_verdict_comes_first_and_the_numbers_behind_it_follow(runs, capsys):
    print_comparison([runs], "supervised")
    printed = capsys.readouterr().out
    assert printed.startswith("The unlabelled scans help: segpl is")
    assert "6 test subjects, 3 seeds" in printed
    assert "+10.0" in printed
    assert "below 0.1" in printed
    assert "2-4" in printed
    assert "Brier" in printed


def test_the_record_of_a_comparison_is_json_with_the_same_verdict(runs, capsys):
    print_comparison([runs], "supervised")
    printed = capsys.readouterr().out
    record = json.loads(json.dumps(comparison_record([runs], "supervised"), allow_nan=False))
    assert record["baseline"] == "supervised"
    (verdict,) = record["verdicts"]
    assert verdict["sentence"] in printed
    assert verdict["kind"] in ("helps", "hurts", "inconclusive")
    assert verdict["method"] == "segpl"
    assert [verdict["low"], verdict["effect"]] == pytest.approx([10, 10])


def test_an_undefined_number_of_a_comparison_is_null(runs):
    files = [runs / "segpl-0", runs / "supervised-0"]
    for run in files:
        rows = pd.read_csv(run / "scores.csv")
        rows[rows["subject"] == "s0"].to_csv(run / "scores.csv", index=False)
    (verdict,) = comparison_record(files, "supervised")["verdicts"]
    assert verdict["low"] is None
    assert verdict["p_corrected"] is None
    assert verdict["bootstrap"] == [None, None]


def test_an_unknown_baseline_is_refused_with_a_suggestion(runs):
    with pytest.raises(UserError, match=r"baseline segpll: .* Did you mean 'segpl'\?"):
        print_comparison([runs], "segpll")


def test_labelled_subjects_beyond_the_budget_are_reported_once(runs, capsys):
    use = {"total": 14, "learning": 2, "validation": 12, "extra_validation": True}
    for run in runs.iterdir():
        write_json(run / SPLIT_FILE, {"labelled_subjects": use})
    print_comparison([runs], "supervised")
    sentence = (
        "2 labelled subjects to learn from, and 12 further labelled subjects "
        "to choose the weights: 14 in all."
    )
    assert capsys.readouterr().out.count(sentence) == 1


def test_runs_that_differ_in_validation_are_reported(runs, capsys):
    for run in runs.iterdir():
        is_segpl = run.name.startswith("segpl")
        change_settings(run, validation=5 if is_segpl else None)
    print_comparison([runs], "supervised")
    sentence = "Not only the method differs between the runs at 2 labelled: validation (5, null)."
    assert sentence in capsys.readouterr().out


def test_runs_may_be_given_one_by_one_or_by_their_folder(runs, capsys):
    print_comparison([runs], "supervised")
    by_folder = capsys.readouterr().out
    print_comparison([runs / "segpl-0", runs, *sorted(runs.glob("super*"))], "supervised")
    assert capsys.readouterr().out == by_folder


def test_runs_that_differ_in_more_than_the_method_are_reported(runs, capsys):
    for run in runs.iterdir():
        change_settings(run, steps=400, batch=1 if run.name == "segpl-2" else 2)
    print_comparison([runs], "supervised")
    sentence = "Not only the method differs between the runs at 2 labelled: batch (1, 2)."
    assert sentence in capsys.readouterr().out


def test_the_settings_of_runs_without_scores_do_not_matter(runs, capsys):
    for run in runs.iterdir():
        change_settings(run, steps=400)
    write_run(runs / "unscored", "segpl", 7, 0.0)
    change_settings(runs / "unscored", steps=7)
    remove_scores(runs / "unscored")
    print_comparison([runs], "supervised")
    assert "Not only the method differs" not in capsys.readouterr().out


def test_a_study_gives_its_runs_their_names(tmp_path, capsys):
    """A method with two settings is two methods; two budgets may have equal labelled subjects."""
    folder = tmp_path / "runs"
    for budget, loss in (("50 slices", 0.1), ("150 slices", 0.0)):
        for seed in (0, 1, 2):
            write_run(folder / f"supervised_{budget}_{seed}", "supervised", seed, -loss)
            write_run(folder / f"control_{budget}_{seed}", "segpl-em", seed, 0.05, alpha=0.0)
            write_run(folder / f"segpl-em_{budget}_{seed}", "segpl-em", seed, 0.2)
    names = {run.name: run.name.split("_")[:2] for run in folder.iterdir()}
    write_run(folder / "older", "segpl-em", 0, 0.5)
    write_json(tmp_path / RUNS_FILE, names)
    print_comparison([tmp_path], "supervised")
    printed = capsys.readouterr().out
    assert "The unlabelled scans help: segpl-em is 30.0 IoU points better" in printed
    assert "The unlabelled scans help: segpl-em is 20.0 IoU points better" in printed
    assert printed.startswith(
        "control is 15.0 IoU points better than supervised training at 2 labelled subjects, 50"
    )
    assert "help: control" not in printed


def test_runs_without_the_cost_of_prediction_are_compared_without_calibration(runs, capsys):
    for file in runs.glob("*/prediction_cost*.json"):
        file.unlink()
    print_comparison([runs], "supervised")
    printed = capsys.readouterr().out
    assert "IoU points" in printed
    assert "Calibration" not in printed


def test_uncertainty_has_a_row_for_each_number_of_samples(runs):
    write_run(runs / "segpl-0", "segpl", 0, 0.1, samples=5)
    table = uncertainty(gather([runs / "segpl-0"]).runs).set_index("samples")
    assert table.loc[1, "brier"] == pytest.approx(0.1 + 0.05 * 2.5)
    assert table.loc[5, "voxels_per_second"] == pytest.approx(2e5)
    assert set(table["seconds_of_training"]) == {12.0}


def test_scores_on_other_data_are_not_mixed_in(runs):
    other_data = scoring_files(runs / "segpl-0", "-elsewhere")
    write_json(other_data.prediction_cost, {"samples": 1, "voxels_per_second": 1})
    assert len(uncertainty(gather([runs / "segpl-0"]).runs)) == 1


def test_a_missing_cost_of_training_is_shown_as_a_dash(runs, capsys):
    (runs / "segpl-1" / COST_FILE).unlink()
    for seed in (0, 1, 2):
        (runs / f"supervised-{seed}" / COST_FILE).unlink()
    print_comparison([runs], "supervised")
    assert "–" in capsys.readouterr().out


def test_a_run_without_scores_is_named_and_the_others_are_compared(runs, capsys):
    remove_scores(runs / "segpl-1")
    print_comparison([runs], "supervised")
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "segpl-1 has no scores and is left out."
    assert "6 test subjects, 2 seeds" in second


def test_several_runs_without_scores_are_named_in_one_sentence(runs, capsys):
    remove_scores(runs / "segpl-1", runs / "supervised-1")
    print_comparison([runs / "segpl-1", runs], "supervised")
    sentence = "segpl-1 and supervised-1 have no scores and are left out.\n"
    assert capsys.readouterr().out.startswith(sentence)


def test_an_empty_file_of_scores_holds_no_scores(runs, capsys):
    scoring_files(runs / "segpl-1").scores.write_text("")
    print_comparison([runs], "supervised")
    assert capsys.readouterr().out.startswith("segpl-1 has no scores and is left out.")


def test_runs_without_any_scores_cannot_be_compared(runs):
    remove_scores(*runs.iterdir())
    message = r"segpl-0, .* and supervised-2 have no scores: make them with segpl evaluate"
    with pytest.raises(UserError, match=message):
        print_comparison([runs], "supervised")


def test_runs_without_a_table_of_images_are_compared_without_sizes(runs, capsys):
    for run in runs.iterdir():
        scoring_files(run).images.unlink()
    print_comparison([runs], "supervised")
    printed = capsys.readouterr().out
    assert "+10.0" in printed
    assert "by size of the foreground" not in printed
