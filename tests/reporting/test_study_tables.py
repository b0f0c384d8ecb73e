"""The tables of a study, against numbers worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from segpl.foundation.errors import UserError
from segpl.reporting.render import markdown
from segpl.reporting.study_numbers import Layout, cells, comparison, over_seeds
from segpl.reporting.study_tables import write_study_tables
from segpl.reporting.table import from_json

SUBJECTS = "abcd"


def rows(method, budget, seed, values, metric="iou", shift="clean", level=0.0, region="x"):
    """One score for each subject."""
    return [
        {
            "run": f"{method}-{budget}-{seed}",
            "method": method,
            "seed": seed,
            "labelled": 1,
            "budget": budget,
            "subject": subject,
            "case": subject,
            "region": region,
            "shift": shift,
            "level": level,
            "metric": metric,
            "value": value,
        }
        for subject, value in zip(SUBJECTS, values, strict=False)
    ]


@pytest.fixture
def scores():
    """Seeds 0 and 1: supervised 0.40 and 0.50, cps 0.60 and 0.64, ours 0.70 and 0.80."""
    levels = {"supervised": (0.40, 0.50), "cps": (0.60, 0.64), "ours": (0.70, 0.80)}
    found = [
        row
        for method, means in levels.items()
        for seed, mean in enumerate(means)
        for metric, extra in (("iou", 0.0), ("mean_iou", 0.1))
        for row in rows(
            method, "2", seed, [mean + extra + step for step in (-0.03, -0.01, 0.01, 0.03)], metric
        )
    ]
    return pd.DataFrame(found)


@pytest.fixture
def layout():
    return Layout("Study", ["supervised", "cps", "ours"], ["2"], [0, 1], ["supervised", "cps"], {})


def line(folder, word, name="comparison.md"):
    """The row of a Markdown table that begins with a method."""
    (found,) = [
        text
        for text in (folder / name).read_text(encoding="utf-8").splitlines()
        if f"| {word} |" in text
    ]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_mean_and_deviation_are_over_seeds_of_the_mean_over_subjects(scores, layout, tmp_path):
    write_study_tables(tmp_path, scores, pd.DataFrame(), layout)
    # ours: means 0.70 and 0.80; deviation 0.1 / sqrt(2)
    assert line(tmp_path, "ours") == [
        "2",
        "ours",
        "**75.0 ± 7.1**",
        "85.0 ± 7.1",
        "2",
        "4",
        "0.12 vs cps",
    ]
    assert line(tmp_path, "cps") == ["2", "cps", "*62.0 ± 2.8*", "72.0 ± 2.8", "2", "4", "–"]
    # supervised is tested against the best baseline too: four subjects, all worse, 2 / 2^4
    assert line(tmp_path, "supervised")[2:] == ["45.0 ± 7.1", "55.0 ± 7.1", "2", "4", "0.12 vs cps"]


def test_the_stored_table_is_the_one_in_markdown(scores, layout, tmp_path):
    write_study_tables(tmp_path, scores, pd.DataFrame(), layout)
    stored = from_json((tmp_path / "comparison.table.json").read_text(encoding="utf-8"))
    assert markdown(stored) == (tmp_path / "comparison.md").read_text(encoding="utf-8")


def test_the_csv_has_the_numbers_unrounded(scores, layout, tmp_path):
    write_study_tables(tmp_path, scores, pd.DataFrame(), layout)
    ours = pd.read_csv(tmp_path / "comparison.csv").set_index("method").loc["ours"]
    assert ours["iou_mean"] == pytest.approx(0.75)
    assert ours["iou_std"] == pytest.approx(0.1 / np.sqrt(2), rel=1e-5)
    assert ours["difference"] == pytest.approx(0.13)
    assert ours["p"] == pytest.approx(0.125)
    assert (ours["baseline"], ours["seeds"], ours["failed"], ours["wanted"]) == ("cps", 2, 0, 2)


def test_cases_then_regions_then_subjects_then_seeds_are_averaged():
    found = pd.DataFrame(
        [
            *rows("m", "1", 0, [0.2], region="x"),
            *rows("m", "1", 0, [0.6], region="x"),  # a second case of subject a: region x is 0.4
            *rows("m", "1", 0, [0.8, 0.2], region="y"),  # so subject a is 0.6, and subject b 0.2
            *rows("m", "1", 1, [np.nan, 0.5], region="x"),  # seed 1: subject a is undefined
        ]
    )
    (row,) = over_seeds(found).to_dict("records")
    assert row["mean"] == pytest.approx((0.4 + 0.5) / 2)
    assert (row["min"], row["max"]) == (pytest.approx(0.4), pytest.approx(0.5))
    assert (row["seeds"], row["subjects"]) == (2, 2)


def test_a_missing_run_is_counted_and_said(scores, layout, tmp_path):
    kept = scores[~((scores["method"] == "ours") & (scores["seed"] == 1))]
    failed = {("2", "ours"): 1}
    write_study_tables(tmp_path, kept, pd.DataFrame(), Layout(**{**vars(layout), "failed": failed}))
    assert line(tmp_path, "ours")[2:6] == ["**70.0**", "80.0", "1 of 2", "4"]
    assert "1 of 2 runs of ours at 2 failed." in (tmp_path / "comparison.md").read_text(
        encoding="utf-8"
    )
    assert "1 of 2 runs of ours at 2 failed." in (tmp_path / "comparison.tex").read_text(
        encoding="utf-8"
    )


def test_a_method_without_any_run_keeps_its_row(scores, layout, tmp_path):
    kept = scores[scores["method"] != "cps"]
    write_study_tables(
        tmp_path, kept, pd.DataFrame(), Layout(**{**vars(layout), "failed": {("2", "cps"): 2}})
    )
    assert line(tmp_path, "cps") == ["2", "cps", "–", "–", "0 of 2", "0", "–"]
    assert line(tmp_path, "ours")[-1] == "0.12 vs supervised", "the best baseline that is left"


def test_runs_without_a_seed_in_common_are_not_tested(scores, layout):
    kept = scores[(scores["method"] == "ours") == (scores["seed"] == 1)]
    found = comparison(over_seeds(kept), kept, layout).set_index("method")
    assert np.isnan(found.loc["ours", "p"])


def test_the_two_best_are_marked_in_each_budget_and_ties_alike(layout, tmp_path):
    values = {("2", "supervised"): 0.5, ("2", "cps"): 0.5, ("2", "ours"): 0.4}
    values |= {("9", "supervised"): 0.1, ("9", "cps"): 0.2, ("9", "ours"): 0.3}
    found = pd.DataFrame(
        [
            row
            for (budget, method), value in values.items()
            for metric in ("iou", "mean_iou")
            for row in rows(method, budget, 0, [value] * 2, metric)
        ]
    )
    write_study_tables(
        tmp_path,
        found,
        pd.DataFrame(),
        Layout(**{**vars(layout), "budgets": ["2", "9"], "seeds": [0]}),
    )
    text = [
        line.split(" | ")[:3]
        for line in (tmp_path / "comparison.md").read_text(encoding="utf-8").splitlines()
        if "| " in line
    ][2:]
    assert [cells[2] for cells in text] == [
        "**50.0**",
        "**50.0**",
        "40.0",
        "10.0",
        "*20.0*",
        "**30.0**",
    ]


def test_of_a_single_method_nothing_is_marked(scores, layout, tmp_path):
    alone = scores[scores["method"] == "ours"]
    write_study_tables(
        tmp_path, alone, pd.DataFrame(), Layout("S", ["ours"], ["2"], [0, 1], ["ours"], {})
    )
    assert line(tmp_path, "ours")[2] == "75.0 ± 7.1"
    assert "Bold" not in (tmp_path / "comparison.md").read_text(encoding="utf-8")


def test_the_papers_figures_stand_beside_ours_as_the_papers(scores, layout, tmp_path):
    paper = {
        "paper": "Table 9",
        "paper_scores": {"2": {"ours": (71.2, 12.77), "cps": (63.89, 11.5)}},
    }
    write_study_tables(tmp_path, scores, pd.DataFrame(), Layout(**{**vars(layout), **paper}))
    text = (tmp_path / "comparison.md").read_text(encoding="utf-8")
    assert "paper: IoU %" in text
    assert "its own (Table 9)" in text
    assert line(tmp_path, "ours")[4] == "71.20 ± 12.77"
    assert line(tmp_path, "supervised")[4] == "–"
    assert "**71.20" not in text, "only ours are marked"


def test_how_weights_are_chosen_and_what_is_tested_is_said(scores, layout, tmp_path):
    write_study_tables(tmp_path, scores, pd.DataFrame(), layout)
    for name in ("comparison.md", "comparison.tex"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "best foreground IoU on its validation subjects" in text
        assert "Wilcoxon's signed-rank test over subjects" in text


def test_of_uncertainty_less_is_better(layout, tmp_path):
    found = [
        row
        for method, value in {"supervised": 0.3, "cps": 0.2, "ours": 0.1}.items()
        for metric, factor in {
            "iou": 1,
            "mean_iou": 1,
            "brier": 1,
            "ece": 0.5,
            "aurc": 0.1,
            "nll": 3,
        }.items()
        for seed in (0, 1)
        for row in rows(method, "2", seed, [factor * (value + 0.01 * seed)] * 4, metric)
    ]
    write_study_tables(tmp_path, pd.DataFrame(found), pd.DataFrame(), layout)
    ours, cps = (line(tmp_path, method, "uncertainty.md") for method in ("ours", "cps"))
    assert ours[2:] == [
        "**0.1050 ± 0.0071**",
        "**5.25 ± 0.35**",
        "**1.050 ± 0.071**",
        "**0.3150 ± 0.0212**",
        "2",
        "4",
    ]
    assert cps[2] == "*0.2050 ± 0.0071*"
    assert (tmp_path / "uncertainty.csv").is_file()


def test_robustness_is_a_curve_for_each_method_in_the_studys_order(scores, layout, tmp_path):
    shifted = scores.assign(shift="ood", level=0.1, value=scores["value"] / 2)
    both = pd.concat([shifted, scores]).sample(frac=1, random_state=0)
    write_study_tables(tmp_path, both, pd.DataFrame(), layout)
    curve = pd.read_csv(tmp_path / "robustness.csv")
    assert list(dict.fromkeys(curve["method"])) == layout.methods
    ours = curve[
        (curve["method"] == "ours") & (curve["shift"] == "ood") & (curve["metric"] == "iou")
    ].iloc[0]
    assert (ours["level"], ours["mean"], ours["min"], ours["max"]) == pytest.approx(
        (0.1, 0.375, 0.35, 0.4)
    )


def test_without_shifts_there_is_no_curve(scores, layout, tmp_path):
    write_study_tables(tmp_path, scores, pd.DataFrame(), layout)
    assert not (tmp_path / "robustness.csv").exists()


def test_cost_is_the_mean_over_runs_with_the_papers_beside_it(scores, layout, tmp_path):
    flops = {"flops_prediction": 6.22e9, "flops_labelled": 6.22e9, "flops_unlabelled": 12.44e9}
    costs = pd.DataFrame(
        [
            {"method": "ours", "seconds": seconds, "parameters": 626_740, **flops}
            for seconds in (10.0, 11.0)
        ]
    )
    paper = {
        "paper": "Table 9",
        "paper_cost": {"ours": {"seconds": 1601.0, "gigaflops": 6.22, "parameters": 626740.0}},
    }
    write_study_tables(tmp_path / "tables", scores, costs, Layout(**{**vars(layout), **paper}))
    theirs = ["626.7", "1601", "6.22", "626.7"]  # our parameters, and the paper's three figures
    assert line(tmp_path, "ours", "cost.md") == [
        "ours",
        "10.5",
        "6.22",
        "6.22",
        "12.44",
        *theirs,
        "2",
    ]
    assert line(tmp_path, "cps", "cost.md") == ["cps", *["–"] * 9]


def test_the_order_in_which_runs_ended_changes_nothing(scores, layout, tmp_path):
    for name, found in (("one", scores), ("other", scores.iloc[::-1])):
        write_study_tables(tmp_path / name, found, pd.DataFrame(), layout)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "other" / file.name).read_bytes()


def test_no_scores_are_an_error(layout, tmp_path):
    with pytest.raises(UserError, match="no run has succeeded"):
        write_study_tables(tmp_path, pd.DataFrame(), pd.DataFrame(), layout)


def test_counts_are_of_the_headline(scores, layout):
    assert list(cells(over_seeds(scores), layout, ("iou",))["subjects"]) == [4, 4, 4]
