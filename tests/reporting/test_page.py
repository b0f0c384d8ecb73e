"""The report of a whole study, and of runs of which something is missing."""

import csv
import json
import shutil
import subprocess
import sys
from statistics import mean, stdev

import numpy as np
import pandas as pd
import pytest
from made_up_runs import STRANGE, data_folder, run_folder
from parsed_page import ParsedPage

from segpl.foundation.errors import UserError
from segpl.reporting.material import gather
from segpl.reporting.page import write_report
from segpl.reporting.page.catalogue import PICTURES, PLOTS
from segpl.reporting.page.cost import accuracy_and_cost, draw_accuracy_and_cost
from segpl.reporting.table import Column, Format, Table, text_column, to_json
from segpl.rundir import RUNS_FILE

SHIFTS = (("ood", 0.1), ("ood", 0.2))
RUN = "segpl_2-labelled_seed0_abcd"
"""One of the study's runs."""
STUDY_TABLE = Table(
    "Study",
    [text_column("labelled"), text_column("method"), Column("IoU | %", Format(".1f", 100))],
    [[["2", "a <b>", 0.5]]],
    ["A note."],
)
NO_SCORES = "No run here has been evaluated"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two methods with two seeds, a failed run, an old run, a study's table and a ranking."""
    folder = tmp_path_factory.mktemp("study")
    data = data_folder(folder / "data")
    runs = folder / "runs"
    for method in ("supervised", "segpl"):
        for seed in (0, 1):
            name = f"{method}_2-labelled_seed{seed}_abcd"
            run_folder(runs / name, data, method, seed, shifts=SHIFTS)
    # Another alpha, so that there is something to ablate.
    settings_file = runs / "segpl_2-labelled_seed1_abcd" / "run.yaml"
    settings = settings_file.read_text(encoding="utf-8")
    settings_file.write_text(settings.replace("alpha: 0.05", "alpha: 0.1"), encoding="utf-8")
    shutil.copy(runs / RUN / "scores.csv", runs / RUN / "scores-5-samples.csv")
    failed = runs / "segpl_2-labelled_seed2_abcd"
    shutil.copytree(runs / RUN, failed, ignore=shutil.ignore_patterns("*.csv"))
    (failed / "failed.txt").write_text("no memory <left>\n")
    names = {run.name: (run.name.partition("_")[0], "2 labelled") for run in runs.iterdir()}
    (folder / RUNS_FILE).write_text(json.dumps(names))
    # A run of an earlier version of the study, which the study does not list.
    run_folder(runs / "old_2-labelled_seed0_ffff", data, "segpl", 0)
    (folder / "tables").mkdir()
    (folder / "tables" / "comparison.table.json").write_text(to_json(STUDY_TABLE))
    ranking = pd.DataFrame({"rank": [1], "case": [STRANGE[0]], "reason": ["unsure & new"]})
    ranking.to_csv(folder / "rank.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def page(study):
    return ParsedPage(write_report([study]))


def report(*folders):
    return ParsedPage(write_report(list(folders)))


def copy_run(study, target, *left_out):
    """Copy a run of the study to `target` without the files that match `left_out`."""
    ignored = shutil.ignore_patterns(*left_out)
    shutil.copytree(study / "runs" / RUN, target, ignore=ignored)


def seed_means(study, method, metric):
    """The mean over regions and subjects of each seed, straight from the files."""
    means = []
    for file in sorted(study.glob(f"runs/{method}_*/scores.csv")):
        with file.open(encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        values_by_case: dict[str, list[float]] = {}
        for row in rows:
            if row["metric"] == metric and row["shift"] == "clean":
                values_by_case.setdefault(row["case"], []).append(float(row["value"]))
        means.append(mean(mean(values) for values in values_by_case.values()))
    return means


@pytest.mark.parametrize("method", ["supervised", "segpl"])
def test_the_numbers_in_the_page_are_those_of_the_scores(study, page, method):
    titles, *rows = page.tables["Main scores"]
    (row,) = [row for row in rows if row[1] == method]
    cells = dict(zip(titles, row, strict=True))
    iou = seed_means(study, method, "iou")
    ece = seed_means(study, method, "ece")
    assert cells["IoU %"] == f"{100 * mean(iou):.1f} ± {100 * stdev(iou):.1f}"
    assert cells["ECE %"] == f"{100 * mean(ece):.2f} ± {100 * stdev(ece):.2f}"
    assert cells["labelled"] == "2 labelled"
    assert cells["seeds"] == "2"
    assert cells["subjects"] == "3"


def test_the_baseline_is_the_first_row(page):
    _, *rows = page.tables["Main scores"]
    assert [row[1] for row in rows] == ["supervised", "segpl"]


def test_the_page_gives_a_verdict(page):
    assert "segpl is" in page.text
    assert "than supervised training at 2 labelled subjects" in page.text


def test_a_baseline_can_be_chosen(study, tmp_path):
    page = ParsedPage(write_report([study], tmp_path / "page.html", baseline="segpl"))
    assert "supervised is" in page.text
    assert "than segpl training at 2 labelled subjects" in page.text
    _, *rows = page.tables["Main scores"]
    assert [row[1] for row in rows] == ["segpl", "supervised"]
    titles, *_ = page.tables["Cost of training and prediction"]
    assert "× segpl" in titles
    assert f"segpl report {study} --baseline segpl" in page.text
    differences = pd.read_csv(tmp_path / "page-figures" / "image-differences.csv")
    assert set(differences["baseline"]) == {"segpl"}


def test_an_unknown_baseline_is_refused_with_a_suggestion(study):
    sentence = (
        "No run here uses the baseline supervisd: train one with it, or choose among supervised "
        "and segpl. Did you mean 'supervised'?"
    )
    with pytest.raises(UserError) as error:
        write_report([study], baseline="supervisd")
    assert str(error.value) == sentence


def test_the_scores_over_images_are_beside_those_over_subjects(study, page):
    titles, *rows = page.tables["IoU over test images"]
    (row,) = [row for row in rows if row[1] == "segpl"]
    cells = dict(zip(titles, row, strict=True))
    tables = [pd.read_csv(file) for file in study.glob("runs/segpl_*abcd/images.csv")]
    images = pd.concat(tables).groupby(["case", "image"])["value"].mean()
    assert cells["IoU % per image"] == f"{100 * images.mean():.1f} ± {100 * images.std():.1f}"
    iou = seed_means(study, "segpl", "iou")
    assert cells["IoU % per subject"] == f"{100 * mean(iou):.1f} ± {100 * stdev(iou):.1f}"
    assert cells["images"] == str(len(images))


def test_accuracy_is_plotted_over_the_number_of_parameters(study):
    numbers = accuracy_and_cost(gather([study])).set_index("run")
    assert set(numbers["parameters_k"]) == {5.0}
    iou = [100 * value for value in seed_means(study, "segpl", "iou")]
    assert [numbers.loc[RUN, "iou"]] == pytest.approx(iou[:1])
    rows = numbers.loc[[RUN]].assign(budget=pd.Categorical(["2 labelled"]))
    rows["method"] = pd.Categorical(rows["method"], ["supervised", "segpl"])
    figure = draw_accuracy_and_cost(rows, "parameters_k", "parameters, thousands")
    (points,) = figure.axes[0].collections
    np.testing.assert_allclose(points.get_offsets(), [[5.0, iou[0]]])


def test_failed_runs_are_named_with_their_reason(page):
    assert "1 of 5 runs failed" in page.text
    assert "no memory <left>" in page.text


def test_the_tables_of_the_study_are_in_the_page(page):
    assert page.tables["Study"] == [["labelled", "method", "IoU | %"], ["2", "a <b>", "50.0"]]


def test_the_ranking_is_in_the_page(page):
    _, row = page.tables["Most useful scans first"]
    assert row == ["1", STRANGE[0], "unsure & new"]


def test_interventions_of_the_guard_are_listed_for_methods_with_pseudo_labels(page):
    assert "The guard reduced alpha" in page.text
    assert f"{RUN} after step 20 (alpha times 0.1)" in page.text
    assert "supervised_2-labelled_seed0_abcd after step" not in page.text


def test_the_commands_and_the_fingerprint_of_the_data_are_in_the_page(page):
    assert "segpl train --out 'a b'" in page.text
    assert "sha256:abc" in page.text


def test_the_use_of_the_labels_is_described_once(page):
    sentence = (
        "2 labelled subjects to learn from, and 1 further labelled subject to choose the weights: "
        "3 in all."
    )
    assert page.text.count(sentence) == 1


def test_predictions_from_several_samples_have_their_own_table(page):
    _, *one_sample = page.tables["Calibration"]
    _, *five_samples = page.tables["Calibration, 5 samples"]
    assert [row[1] for row in one_sample] == ["supervised", "segpl"]
    assert [row[1] for row in five_samples] == ["segpl"]


def test_every_figure_of_the_catalogue_is_in_the_page(page):
    assert page.figures == {entry.name for entry in (*PLOTS, *PICTURES)}


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize("entry", [*PLOTS, *PICTURES], ids=lambda entry: entry.name)
def test_every_figure_is_a_file_with_its_numbers(study, entry):
    ending = "png" if entry in PICTURES else "svg"
    folder = study / "report-figures"
    assert (folder / f"{entry.name}.{ending}").stat().st_size > 1000
    assert len(pd.read_csv(folder / f"{entry.name}.csv"))


def test_identifiers_are_unique(page):
    assert len(page.ids) == len(set(page.ids))


def test_every_link_within_the_page_has_a_target(page):
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    targets = {link.removeprefix("#") for link in links if link.startswith("#")}
    assert targets <= set(page.ids)


def test_every_figure_is_in_a_section_of_the_page(page):
    assert {entry.section for entry in (*PLOTS, *PICTURES)} <= set(page.ids)


def test_the_page_loads_nothing_from_elsewhere(page):
    sources = [attributes["src"] for _, attributes in page.tags if "src" in attributes]
    assert sources
    assert all(source.startswith("data:") for source in sources)
    assert not {tag for tag, _ in page.tags} & {"iframe", "object", "embed"}


def test_every_figure_has_a_description(page):
    for tag, attributes in page.tags:
        if tag == "img":
            assert attributes["alt"]
        if tag == "svg":
            assert attributes["role"] == "img"
            assert attributes["aria-label"]


def test_strange_names_are_shown_and_not_executed(page):
    assert {case["name"] for case in page.viewer_data["cases"]} == set(STRANGE)
    assert page.viewer_data["regions"][1]["name"] == "core <i>"
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 2
    assert "i" not in tags


def test_budgets_are_in_numerical_order(tmp_path):
    for labelled in (10, 2, 9):
        run_folder(tmp_path / f"run-{labelled}", tmp_path, labelled=labelled, cases=("a",))
    assert gather([tmp_path]).budgets == ["2 labelled", "9 labelled", "10 labelled"]


def test_a_run_without_validation_subjects_is_called_uncalibrated(tmp_path):
    run = run_folder(tmp_path / "run", data_folder(tmp_path / "data"))
    split = json.loads((run / "split.json").read_text())
    split["validation"] = []
    split["labelled_subjects"] = {
        "total": 2,
        "learning": 2,
        "validation": 0,
        "extra_validation": False,
    }
    (run / "split.json").write_text(json.dumps(split))
    log = pd.read_csv(run / "log.csv")
    log.assign(validation_iou=np.nan).to_csv(run / "log.csv", index=False)
    page = report(run)
    assert "loss" in page.figures
    assert "validation" not in page.figures
    assert "2 labelled subjects to learn from and none to choose the weights" in page.text
    assert "This run has no validation subjects to fit a temperature on" in page.text


@pytest.fixture(scope="module")
def page_without_data(study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("without-data")
    run = folder / "run"
    copy_run(study, run)
    settings = (run / "run.yaml").read_text(encoding="utf-8")
    (run / "run.yaml").write_text(settings.replace(str(study / "data"), "/nowhere"))
    return write_report([run], folder / "mine.html")


def test_without_the_data_folder_the_report_has_no_pictures_and_says_so(page_without_data):
    page = ParsedPage(page_without_data)
    assert "No pictures of cases" in page.text
    assert not page.viewer_data


def test_without_a_baseline_the_report_says_what_to_train(page_without_data):
    page = ParsedPage(page_without_data)
    assert "no run here was trained on labels only" in page.text


def test_the_folder_of_figures_is_named_after_the_page(page_without_data):
    figures = page_without_data.with_name("mine-figures")
    assert (figures / "subjects.svg").is_file()


def test_a_run_that_was_only_evaluated_with_samples_has_all_figures(tmp_path):
    data = data_folder(tmp_path / "data")
    run = run_folder(tmp_path / "run", data, shifts=(("ood", 0.1),))
    for name in ("scores.csv", "images.csv", "curves.csv", "masks", "probabilities", "evaluation"):
        stem, dot, ending = name.partition(".")
        (run / name).rename(run / f"{stem}-5-samples{dot}{ending}")
    page = report(run)
    assert {"subjects", "masks", "uncertainty", "reliability", "levels"} <= page.figures
    assert NO_SCORES not in page.text


def test_a_run_that_was_never_evaluated_has_a_report_on_its_training(study, tmp_path):
    scoring = ("scores*.csv", "images.csv", "curves.csv", "masks", "probabilities")
    copy_run(study, tmp_path / "run", *scoring)
    page = report(tmp_path / "run")
    assert NO_SCORES in page.text
    assert "loss" in page.figures
    assert "subjects" not in page.figures


def test_tables_of_an_earlier_version_are_named_and_not_shown(study, tmp_path):
    copy_run(study, tmp_path / "runs" / "run")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "comparison.md").write_text("## Study\n\n| method |\n| --- |\n| a |\n")
    page = report(tmp_path)
    assert "comparison.md: tables of an earlier version of segpl are not shown." in page.text
    assert "Study" not in page.tables


@pytest.mark.parametrize("keeps_header", [False, True], ids=["empty", "header"])
def test_a_report_without_any_rows_says_so(study, tmp_path, keeps_header):
    for name in ("run-0", "run-1"):
        copy_run(study, tmp_path / "runs" / name)
    (tmp_path / "rank.csv").write_text("rank,case\n")
    for file in [tmp_path / "rank.csv", *tmp_path.glob("runs/*/*.csv")]:
        header = file.read_text(encoding="utf-8").splitlines()[0]
        file.write_text(f"{header}\n" if keeps_header else "")
    page = report(tmp_path)
    assert NO_SCORES in page.text
    assert "Main scores" not in page.tables


def test_a_run_without_scores_among_others_is_named(study, tmp_path):
    copy_run(study, tmp_path / "run-0")
    copy_run(study, tmp_path / "run-1", "*.csv")
    page = report(tmp_path)
    assert "1 of 2 runs has not been evaluated: run-1." in page.text
    titles, row = page.tables["Main scores"]
    assert dict(zip(titles, row, strict=True))["seeds"] == "1"


def test_settings_and_scores_are_enough_for_a_report(study, tmp_path):
    (tmp_path / "run").mkdir()
    for name in ("run.yaml", "scores.csv"):
        shutil.copy(study / "runs" / RUN / name, tmp_path / "run" / name)
    page = report(tmp_path / "run")
    assert "Main scores" in page.tables
    assert "Cost of training and prediction" not in page.tables
    assert "Unknown whether unlabelled scans were used: run." in page.text


def test_scores_without_an_iou_are_reported(study, tmp_path):
    copy_run(study, tmp_path / "run")
    file = tmp_path / "run" / "scores.csv"
    scores = pd.read_csv(file)
    scores[scores["metric"] == "ece"].to_csv(file, index=False)
    page = report(tmp_path / "run")
    assert "No test subject has a defined IoU" in page.text
    titles, _ = page.tables["Main scores"]
    expected = ["labelled", "method", "ECE %", "worst subject IoU %", "seeds", "subjects"]
    assert titles == expected


def test_a_study_that_lists_no_run_of_its_folder_is_refused(study, tmp_path):
    copy_run(study, tmp_path / "runs" / "run")
    (tmp_path / RUNS_FILE).write_text("{}")
    with pytest.raises(UserError, match="names no run"):
        write_report([tmp_path])


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds no run"):
        write_report([tmp_path])


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="is not a folder"):
        write_report([tmp_path / "none"])


def test_settings_that_are_not_yaml_are_refused(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.yaml").write_text("a: [")
    with pytest.raises(UserError, match=r"run\.yaml cannot be read"):
        write_report([tmp_path / "run"])


def test_runs_of_two_tasks_are_refused(study, tmp_path):
    copy_run(study, tmp_path / "a")
    copy_run(study, tmp_path / "b")
    (tmp_path / "b" / "task.yaml").write_text("channels: [ct]\nregions: []\n")
    with pytest.raises(UserError, match="different tasks"):
        write_report([tmp_path])


def test_the_report_never_imports_torch():
    code = (
        "import sys, segpl.reporting.page\n"
        "assert not {'torch', 'lightning', 'monai'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
