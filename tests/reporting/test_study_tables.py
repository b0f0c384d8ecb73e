"""The tables of a study, compared with numbers worked out by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from segpl.foundation.errors import UserError
from segpl.reporting.render import markdown
from segpl.reporting.study_numbers import Layout, cells, comparison, over_seeds
from segpl.reporting.study_tables import write_study_tables
from segpl.reporting.table import from_json

SUBJECTS = "abcd"
FLOPS = {"flops_prediction": 6.22e9, "flops_labelled": 6.22e9, "flops_unlabelled": 12.44e9}


def rows(method, budget, seed, values, metric="iou", region="x"):
    """One clean score for each subject."""
    records = []
    for subject, value in zip(SUBJECTS, values, strict=False):
        record = {
            "run": f"{method}-{budget}-{seed}",
            "method": method,
            "seed": seed,
            "labelled": 1,
            "budget": budget,
            "subject": subject,
            "case": subject,
            "region": region,
            "shift": "clean",
            "level": 0.0,
            "metric": metric,
            "value": value,
        }
        records.append(record)
    return records


@pytest.fixture
def scores():
    """Seeds 0 and 1: supervised 0.40 and 0.50, cps 0.60 and 0.64, ours 0.70 and 0.80."""
    means_of_seeds = {"supervised": (0.40, 0.50), "cps": (0.60, 0.64), "ours": (0.70, 0.80)}
    offsets = np.array([-0.03, -0.01, 0.01, 0.03])
    records = []
    for method, means in means_of_seeds.items():
        for seed, mean in enumerate(means):
            records += rows(method, "2", seed, mean + offsets, "iou")
            records += rows(method, "2", seed, mean + 0.1 + offsets, "mean_iou")
    return pd.DataFrame(records)


LAYOUT = Layout(
    title="Study",
    methods=["supervised", "cps", "ours"],
    budgets=["2"],
    seeds=[0, 1],
    baselines=["supervised", "cps"],
    failed={},
)
NO_COSTS = pd.DataFrame()


def read(file):
    return file.read_text(encoding="utf-8")


def table_row(folder, method, name="comparison.md"):
    """The cells of a method's row in a Markdown table."""
    (line,) = [line for line in read(folder / name).splitlines() if f"| {method} |" in line]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_mean_and_standard_deviation_are_over_seeds_of_the_mean_over_subjects(scores, tmp_path):
    write_study_tables(tmp_path, scores, NO_COSTS, LAYOUT)
    # Ours has the means 0.70 and 0.80, so the standard deviation is 0.1 / sqrt(2).
    budget, method, iou, mean_iou, seeds, subjects, _ = table_row(tmp_path, "ours")
    assert (budget, method) == ("2", "ours")
    assert (iou, mean_iou) == ("**75.0 ± 7.1**", "85.0 ± 7.1")
    assert (seeds, subjects) == ("2", "4")
    assert table_row(tmp_path, "cps")[2:4] == ["*62.0 ± 2.8*", "72.0 ± 2.8"]
    assert table_row(tmp_path, "supervised")[2:4] == ["45.0 ± 7.1", "55.0 ± 7.1"]


def test_every_other_method_is_tested_against_the_best_baseline(scores, tmp_path):
    write_study_tables(tmp_path, scores, NO_COSTS, LAYOUT)
    # All four subjects differ in the same direction: p = 2 / 2^4.
    assert table_row(tmp_path, "ours")[-1] == "0.12 vs cps"
    assert table_row(tmp_path, "supervised")[-1] == "0.12 vs cps"
    assert table_row(tmp_path, "cps")[-1] == "–"


def test_the_stored_table_is_the_one_in_markdown(scores, tmp_path):
    write_study_tables(tmp_path, scores, NO_COSTS, LAYOUT)
    stored = from_json(read(tmp_path / "comparison.table.json"))
    assert markdown(stored) == read(tmp_path / "comparison.md")


def test_the_csv_has_the_numbers_unrounded(scores, tmp_path):
    write_study_tables(tmp_path, scores, NO_COSTS, LAYOUT)
    ours = pd.read_csv(tmp_path / "comparison.csv").set_index("method").loc["ours"]
    assert ours["iou_mean"] == pytest.approx(0.75)
    assert ours["iou_std"] == pytest.approx(0.1 / np.sqrt(2), rel=1e-5)
    assert ours["difference"] == pytest.approx(0.13)
    assert ours["p"] == pytest.approx(0.125)
    assert (ours["baseline"], ours["seeds"], ours["failed"], ours["wanted"]) == ("cps", 2, 0, 2)


def test_cases_then_regions_then_subjects_then_seeds_are_averaged():
    records = [
        *rows("m", "1", 0, [0.2], region="x"),
        *rows("m", "1", 0, [0.6], region="x"),  # a second case of subject a: region x is 0.4
        *rows("m", "1", 0, [0.8, 0.2], region="y"),  # so subject a is 0.6, and subject b 0.2
        *rows("m", "1", 1, [np.nan, 0.5], region="x"),  # seed 1: subject a is undefined
    ]
    (row,) = over_seeds(pd.DataFrame(records)).to_dict("records")
    assert row["mean"] == pytest.approx((0.4 + 0.5) / 2)
    assert (row["min"], row["max"]) == (pytest.approx(0.4), pytest.approx(0.5))
    assert (row["seeds"], row["subjects"]) == (2, 2)


def test_a_failed_run_is_counted_and_noted(scores, tmp_path):
    is_failed = (scores["method"] == "ours") & (scores["seed"] == 1)
    layout = replace(LAYOUT, failed={("2", "ours"): 1})
    write_study_tables(tmp_path, scores[~is_failed], NO_COSTS, layout)
    assert table_row(tmp_path, "ours")[2:6] == ["**70.0**", "80.0", "1 of 2", "4"]
    assert "1 of 2 runs of ours at 2 failed." in read(tmp_path / "comparison.md")
    assert "1 of 2 runs of ours at 2 failed." in read(tmp_path / "comparison.tex")


def test_a_method_without_any_run_keeps_its_row(scores, tmp_path):
    remaining = scores[scores["method"] != "cps"]
    layout = replace(LAYOUT, failed={("2", "cps"): 2})
    write_study_tables(tmp_path, remaining, NO_COSTS, layout)
    assert table_row(tmp_path, "cps") == ["2", "cps", "–", "–", "0 of 2", "0", "–"]
    assert table_row(tmp_path, "ours")[-1] == "0.12 vs supervised", "the best remaining baseline"


def test_runs_without_a_seed_in_common_are_not_tested(scores):
    is_ours = scores["method"] == "ours"
    is_second_seed = scores["seed"] == 1
    remaining = scores[is_ours == is_second_seed]
    table = comparison(over_seeds(remaining), remaining, LAYOUT).set_index("method")
    assert np.isnan(table.loc["ours", "p"])


def test_the_two_best_are_marked_at_each_budget_and_ties_alike(tmp_path):
    iou = {
        ("2", "supervised"): 0.5,
        ("2", "cps"): 0.5,
        ("2", "ours"): 0.4,
        ("9", "supervised"): 0.1,
        ("9", "cps"): 0.2,
        ("9", "ours"): 0.3,
    }
    records = []
    for (budget, method), value in iou.items():
        records += rows(method, budget, 0, [value] * 2, "iou")
        records += rows(method, budget, 0, [value] * 2, "mean_iou")
    layout = replace(LAYOUT, budgets=["2", "9"], seeds=[0])
    write_study_tables(tmp_path, pd.DataFrame(records), NO_COSTS, layout)
    lines = [line for line in read(tmp_path / "comparison.md").splitlines() if "| " in line]
    iou_cells = [line.split(" | ")[2] for line in lines[2:]]
    assert iou_cells == ["**50.0**", "**50.0**", "40.0", "10.0", "*20.0*", "**30.0**"]


def test_a_single_method_is_not_marked(scores, tmp_path):
    alone = scores[scores["method"] == "ours"]
    layout = replace(LAYOUT, methods=["ours"], baselines=["ours"])
    write_study_tables(tmp_path, alone, NO_COSTS, layout)
    assert table_row(tmp_path, "ours")[2] == "75.0 ± 7.1"
    assert "Bold" not in read(tmp_path / "comparison.md")


def test_the_papers_scores_have_a_column_and_are_not_marked(scores, tmp_path):
    paper_scores = {"2": {"ours": (71.2, 12.77), "cps": (63.89, 11.5)}}
    layout = replace(LAYOUT, paper="Table 9", paper_scores=paper_scores)
    write_study_tables(tmp_path, scores, NO_COSTS, layout)
    text = read(tmp_path / "comparison.md")
    assert "paper: IoU %" in text
    assert "its own (Table 9)" in text
    assert table_row(tmp_path, "ours")[4] == "71.20 ± 12.77"
    assert table_row(tmp_path, "supervised")[4] == "–"


@pytest.mark.parametrize("name", ["comparison.md", "comparison.tex"])
def test_the_notes_explain_the_choice_of_weights_and_the_test(scores, tmp_path, name):
    write_study_tables(tmp_path, scores, NO_COSTS, LAYOUT)
    text = read(tmp_path / name)
    assert "best foreground IoU on its validation subjects" in text
    assert "Wilcoxon's signed-rank test over subjects" in text


def test_lower_uncertainty_scores_are_better(tmp_path):
    factors = {"iou": 1, "mean_iou": 1, "brier": 1, "ece": 0.5, "aurc": 0.1, "nll": 3}
    records = []
    for method, mean in {"supervised": 0.3, "cps": 0.2, "ours": 0.1}.items():
        for metric, factor in factors.items():
            for seed in (0, 1):
                value = factor * (mean + 0.01 * seed)
                records += rows(method, "2", seed, [value] * 4, metric)
    write_study_tables(tmp_path, pd.DataFrame(records), NO_COSTS, LAYOUT)
    brier = "**0.1050 ± 0.0071**"
    ece = "**5.25 ± 0.35**"
    aurc = "**1.050 ± 0.071**"
    nll = "**0.3150 ± 0.0212**"
    cells_of_ours = table_row(tmp_path, "ours", "uncertainty.md")
    assert cells_of_ours[2:] == [brier, ece, aurc, nll, "2", "4"]
    assert table_row(tmp_path, "cps", "uncertainty.md")[2] == "*0.2050 ± 0.0071*"
    assert (tmp_path / "uncertainty.csv").is_file()


def test_robustness_is_a_curve_for_each_method_in_the_studys_order(scores, tmp_path):
    shifted = scores.assign(shift="ood", level=0.1, value=scores["value"] / 2)
    shuffled = pd.concat([shifted, scores]).sample(frac=1, random_state=0)
    write_study_tables(tmp_path, shuffled, NO_COSTS, LAYOUT)
    curves = pd.read_csv(tmp_path / "robustness.csv")
    assert list(dict.fromkeys(curves["method"])) == LAYOUT.methods
    iou = curves[curves["metric"] == "iou"].set_index(["method", "shift"])
    ours = iou.loc[("ours", "ood")]
    numbers = (ours["level"], ours["mean"], ours["min"], ours["max"])
    assert numbers == pytest.approx((0.1, 0.375, 0.35, 0.4))


def test_without_shifts_there_is_no_curve(scores, tmp_path):
    write_study_tables(tmp_path, scores, NO_COSTS, LAYOUT)
    assert not (tmp_path / "robustness.csv").exists()


def test_cost_is_the_mean_over_runs_beside_the_cost_in_the_paper(scores, tmp_path):
    cost = {"method": "ours", "parameters": 626_740, **FLOPS}
    costs = pd.DataFrame([cost | {"seconds": 10.0}, cost | {"seconds": 11.0}])
    paper_cost = {"ours": {"seconds": 1601.0, "gigaflops": 6.22, "parameters": 626740.0}}
    layout = replace(LAYOUT, paper="Table 9", paper_cost=paper_cost)
    write_study_tables(tmp_path / "tables", scores, costs, layout)
    method, *measured, runs = table_row(tmp_path, "ours", "cost.md")
    assert method == "ours"
    assert measured[:5] == ["10.5", "6.22", "6.22", "12.44", "626.7"]
    assert measured[5:] == ["1601", "6.22", "626.7"]
    assert runs == "2"
    assert table_row(tmp_path, "cps", "cost.md") == ["cps", *["–"] * 9]


def test_the_order_in_which_runs_ended_changes_nothing(scores, tmp_path):
    write_study_tables(tmp_path / "forward", scores, NO_COSTS, LAYOUT)
    write_study_tables(tmp_path / "backward", scores.iloc[::-1], NO_COSTS, LAYOUT)
    for file in (tmp_path / "forward").iterdir():
        assert file.read_bytes() == (tmp_path / "backward" / file.name).read_bytes()


def test_no_scores_are_an_error(tmp_path):
    with pytest.raises(UserError, match="no run has succeeded"):
        write_study_tables(tmp_path, pd.DataFrame(), NO_COSTS, LAYOUT)


def test_subjects_are_counted_for_the_first_metric(scores):
    assert list(cells(over_seeds(scores), LAYOUT, ("iou",))["subjects"]) == [4, 4, 4]


def test_the_papers_layout_has_a_row_for_each_budget_and_a_column_for_each_method(scores, tmp_path):
    cost = {"method": "ours", "seconds": 10.0, "parameters": 626_740, **FLOPS}
    costs = pd.DataFrame([cost, cost])
    layout = replace(
        LAYOUT,
        paper="Table 9",
        paper_scores={"2": {"ours": (69.44, 6.38)}},
        paper_cost={"ours": {"seconds": 1601.0, "gigaflops": 6.22, "parameters": 626740.0}},
        notes=["The data have too few subjects."],
    )
    write_study_tables(tmp_path / "tables", scores, costs, layout)
    table = from_json((tmp_path / "paper.table.json").read_text(encoding="utf-8"))
    assert [column.title for column in table.columns[2:]] == LAYOUT.methods
    assert list(table.rows()) == [
        ["2", "this study", "45.00 ± 7.07", "62.00 ± 2.83", "75.00 ± 7.07"],
        ["2", "paper", "–", "–", "69.44 ± 6.38"],
        ["training s", "this study", "–", "–", "10"],
        ["training s", "paper", "–", "–", "1601"],
        ["GFLOP", "this study", "–", "–", "12.44"],
        ["GFLOP", "paper", "–", "–", "6.22"],
        ["parameters K", "this study", "–", "–", "626.7"],
        ["parameters K", "paper", "–", "–", "626.7"],
    ]
    assert "too few subjects" in table.notes[-1]


def test_a_study_without_figures_of_the_paper_has_no_table_in_its_layout(scores, tmp_path):
    write_study_tables(tmp_path / "tables", scores, NO_COSTS, LAYOUT)
    assert not (tmp_path / "paper.md").exists()
