import csv
import json
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pandas as pd
import pytest
import yaml
from made_up_runs import SHAPE, STRANGE, data_folder, run_folder

from segpl.foundation.errors import UserError
from segpl.reporting.label_use import label_use, label_use_sentence
from segpl.reporting.material import gather
from segpl.reporting.page import in_script, write_report
from segpl.reporting.page.catalogue import PICTURES, PLOTS
from segpl.reporting.page.learning import prior_moments, thresholds
from segpl.reporting.page.pictures import confidence
from segpl.reporting.page.scans import largest_entropy
from segpl.reporting.page.viewer import sheet
from segpl.reporting.table import Column, Format, Table, text_column, to_json
from segpl.rundir import RUNS_FILE

STUDY_TABLE = Table(
    "Study",
    [text_column("labelled"), text_column("method"), Column("IoU | %", Format(".1f", 100))],
    [[["2", "a <b>", 0.5]]],
    ["A note."],
)


class Page(HTMLParser):
    """What a browser would make of the page: tables, all text, tags with their attributes, and the viewer's data."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.text, self.tags, self.data = "", [], {}
        self.inside: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in {"meta", "link", "img", "input", "use", "path", "br"}:
            self.inside.append(tag)
        if tag == "table":
            self.rows = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass

    def handle_data(self, text):
        if (
            self.inside
            and self.inside[-1] == "script"
            and self.tags[-1][1].get("type") == "application/json"
        ):
            self.data = json.loads(text)
        elif "script" not in self.inside and "style" not in self.inside:
            self.text += text
            if self.inside and self.inside[-1] in ("td", "th"):
                self.rows[-1][-1] += text
            elif self.inside and self.inside[-1] == "caption":
                self.tables[text] = self.rows


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two methods, two seeds, shifts, a failed run, a study's table and a ranking; strange names everywhere."""
    folder = tmp_path_factory.mktemp("study")
    data = data_folder(folder / "data")
    shifts = (("ood", 0.1), ("ood", 0.2))
    for method in ("supervised", "segpl"):
        for seed in (0, 1):
            run_folder(
                folder / "runs" / f"{method}_2-labelled_seed{seed}_abcd",
                data,
                method,
                seed,
                shifts=shifts,
            )
    sampled = folder / "runs" / "segpl_2-labelled_seed0_abcd"
    shutil.copy(sampled / "scores.csv", sampled / "scores-5-samples.csv")
    broken = folder / "runs" / "segpl_2-labelled_seed2_abcd"
    shutil.copytree(
        folder / "runs" / "segpl_2-labelled_seed0_abcd",
        broken,
        ignore=shutil.ignore_patterns("*.csv"),
    )
    (broken / "failed.txt").write_text("no memory <left>\n")
    (folder / "tables").mkdir()
    (folder / "tables" / "comparison.table.json").write_text(to_json(STUDY_TABLE))
    runs = [run.name for run in (folder / "runs").iterdir()]
    (folder / RUNS_FILE).write_text(
        json.dumps({name: (name.partition("_")[0], "2 labelled") for name in runs})
    )
    run_folder(
        folder / "runs" / "old_2-labelled_seed0_ffff", data, "segpl", 0
    )  # of an earlier version of the study
    ranked = pd.DataFrame({"rank": [1], "case": [STRANGE[0]], "reason": ["unsure & new"]})
    ranked.to_csv(folder / "rank.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def page(study):
    return Page(write_report([study]))


def values(study, method, metric="iou"):
    """The mean over regions and subjects of each seed, straight from the files."""
    means = []
    for file in sorted(study.glob(f"runs/{method}_*/scores.csv")):
        with file.open(encoding="utf-8") as stream:
            rows = [
                row
                for row in csv.DictReader(stream)
                if row["metric"] == metric and row["shift"] == "clean"
            ]
        cases = {row["case"] for row in rows}
        means.append(
            mean(mean(float(row["value"]) for row in rows if row["case"] == case) for case in cases)
        )
    return means


def test_the_numbers_in_the_page_are_those_of_the_scores(study, page):
    head, *rows = page.tables["The scores that matter most"]
    for row in rows:
        shown = dict(zip(head, row, strict=True))
        iou, ece = (values(study, shown["method"], metric) for metric in ("iou", "ece"))
        assert shown["IoU %"] == f"{100 * mean(iou):.1f} ± {100 * stdev(iou):.1f}"
        assert shown["ECE %"] == f"{100 * mean(ece):.2f} ± {100 * stdev(ece):.2f}"
        assert (shown["seeds"], shown["subjects"], shown["labelled"]) == ("2", "3", "2 labelled")
    assert [row[1] for row in rows] == ["supervised", "segpl"]


def test_verdict_failures_tables_and_ranking_are_told(page):
    assert "segpl is" in page.text
    assert "than supervised training at 2 labelled subjects" in page.text
    assert "1 of 5 runs failed" in page.text
    assert "no memory <left>" in page.text
    assert page.tables["Study"] == [["labelled", "method", "IoU | %"], ["2", "a <b>", "50.0"]]
    assert page.tables["Most useful first"][1] == ["1", STRANGE[0], "unsure & new"]
    assert "The guard backed alpha off" in page.text
    assert "segpl_2-labelled_seed0_abcd after step 20 (alpha times 0.1)" in page.text
    assert "supervised_2-labelled_seed0_abcd after step" not in page.text
    assert "segpl train --out 'a b'" in page.text
    assert "sha256:abc" in page.text


FURTHER = "2 labelled subjects to learn from, and 1 further labelled subject to choose the weights: 3 in all."


def test_validation_subjects_beside_the_labelled_ones_are_told(page):
    assert page.text.count(FURTHER) == 1


@pytest.mark.parametrize(
    ("learning", "validation", "extra", "sentence"),
    [
        (
            3,
            5,
            True,
            "3 labelled subjects to learn from, and 5 further labelled subjects to choose the weights: 8 in",
        ),
        (18, 2, False, "20 labelled subjects: 18 to learn from and 2 to choose the weights."),
        (
            1,
            0,
            False,
            "1 labelled subject to learn from and none to choose the weights, which are those of the last",
        ),
    ],
)
def test_label_use_in_words(learning, validation, extra, sentence):
    total = learning + validation
    use = {
        "total": total,
        "learning": learning,
        "validation": validation,
        "extra_validation": extra,
    }
    assert label_use_sentence(use).startswith(sentence)


def test_each_budget_has_its_own_sentence(tmp_path):
    for labelled in (2, 4):
        run_folder(tmp_path / f"run-{labelled}", tmp_path, labelled=labelled, cases=("a",))
    sentences = label_use(gather([tmp_path]).runs)
    assert [sentence.partition(":")[0] for sentence in sentences] == ["2 labelled", "4 labelled"]
    assert sentences[0].endswith(FURTHER)


def test_a_run_without_validation_has_no_such_curve_and_is_said_to_be_uncalibrated(tmp_path):
    run = run_folder(tmp_path / "run", data_folder(tmp_path / "data"))
    split = json.loads((run / "split.json").read_text())
    use = {"total": 2, "learning": 2, "validation": 0, "extra_validation": False}
    (run / "split.json").write_text(
        json.dumps(split | {"validation": [], "labelled_subjects": use})
    )
    log = pd.read_csv(run / "log.csv")
    log.assign(validation_iou=np.nan).to_csv(run / "log.csv", index=False)
    page = Page(write_report([run]))
    shown = {
        attributes["id"]
        for _, attributes in page.tags
        if attributes.get("id", "").startswith("figure-")
    }
    assert "figure-loss" in shown
    assert "figure-validation" not in shown
    assert "2 labelled subjects to learn from and none to choose the weights" in page.text
    assert (
        "This run has no validation subjects to fit a temperature on: its probabilities are not"
        in page.text
    )


def test_predictions_from_several_samples_have_a_table_of_their_own(page):
    one, five = (
        page.tables[f"How far the probabilities can be believed{more}"]
        for more in ("", ", 5 samples")
    )
    assert [row[1] for row in one[1:]] == ["supervised", "segpl"]
    assert [row[1] for row in five[1:]] == ["segpl"]


def test_budgets_stand_in_the_order_of_their_numbers(tmp_path):
    for labelled in (10, 2, 9):
        run_folder(tmp_path / f"run-{labelled}", tmp_path, labelled=labelled, cases=("a",))
    assert gather([tmp_path]).budgets == ["2 labelled", "9 labelled", "10 labelled"]


def test_every_figure_is_in_the_page_and_beside_it_with_its_numbers(study, page):
    shown = {
        attributes["id"]
        for _, attributes in page.tags
        if attributes.get("id", "").startswith("figure-")
    }
    assert shown == {f"figure-{one.name}" for one in (*PLOTS, *PICTURES)}
    for one in (*PLOTS, *PICTURES):
        ending = "png" if one in PICTURES else "svg"
        assert (study / "report-figures" / f"{one.name}.{ending}").stat().st_size > 1000
        assert len(pd.read_csv(study / "report-figures" / f"{one.name}.csv"))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_page_needs_nothing_from_elsewhere_and_says_what_pictures_show(page):
    for tag, attributes in page.tags:
        assert all(attributes[key].startswith("data:") for key in ("src",) if key in attributes)
        assert tag != "img" or attributes["alt"]
        if tag == "svg":
            assert attributes["role"] == "img"
            assert attributes["aria-label"]
    assert not {tag for tag, _ in page.tags} & {"iframe", "object", "embed"}


def test_strange_names_are_shown_as_they_are(page):
    assert [one["name"] for one in page.data["cases"]]
    assert {one["name"] for one in page.data["cases"]} == set(STRANGE)
    assert page.data["regions"][1]["name"] == "core <i>"
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert "i" not in {tag for tag, _ in page.tags}


def test_json_cannot_end_its_script_element():
    hostile = "</script><script>alert(1)</script><!-- & \u2028"
    assert not set("<>&\u2028") & set(in_script(hostile))
    assert json.loads(in_script(hostile)) == hostile


def test_without_its_data_the_report_works_and_says_so(study, tmp_path):
    shutil.copytree(study / "runs" / "segpl_2-labelled_seed0_abcd", tmp_path / "run")
    settings = (
        (tmp_path / "run" / "run.yaml")
        .read_text(encoding="utf-8")
        .replace(str(study / "data"), "/nowhere")
    )
    (tmp_path / "run" / "run.yaml").write_text(settings)
    file = write_report([tmp_path / "run"], tmp_path / "mine.html")
    page = Page(file)
    assert "No pictures of cases" in page.text
    assert not page.data
    assert "no run here has learnt from labels alone" in page.text
    assert (tmp_path / "mine-figures" / "subjects.svg").is_file()


def test_a_run_that_was_scored_with_samples_alone_is_reported_all_the_same(tmp_path):
    data = data_folder(tmp_path / "data")
    run = run_folder(tmp_path / "run", data, shifts=(("ood", 0.1),))
    for name in ("scores.csv", "images.csv", "curves.csv", "masks", "probabilities", "evaluation"):
        stem, dot, ending = name.partition(".")
        (run / name).rename(run / f"{stem}-5-samples{dot}{ending}")
    page = Page(write_report([run]))
    shown = {
        attributes["id"]
        for _, attributes in page.tags
        if attributes.get("id", "").startswith("figure-")
    }
    assert {
        "figure-subjects",
        "figure-masks",
        "figure-uncertainty",
        "figure-reliability",
        "figure-levels",
    } <= shown
    assert "No run here has been scored" not in page.text


def test_a_run_that_was_never_scored_has_a_report_on_its_training(study, tmp_path):
    ignored = shutil.ignore_patterns(
        "scores*.csv", "images.csv", "curves.csv", "masks", "probabilities"
    )
    shutil.copytree(
        study / "runs" / "segpl_2-labelled_seed0_abcd", tmp_path / "run", ignore=ignored
    )
    page = Page(write_report([tmp_path / "run"]))
    assert "No run here has been scored" in page.text
    shown = {
        attributes["id"]
        for _, attributes in page.tags
        if attributes.get("id", "").startswith("figure-")
    }
    assert "figure-loss" in shown
    assert "figure-subjects" not in shown


def test_a_study_with_tables_of_an_earlier_version_is_told(study, tmp_path):
    shutil.copytree(study / "runs" / "segpl_2-labelled_seed0_abcd", tmp_path / "runs" / "run")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "comparison.md").write_text("## Study\n\n| method |\n| --- |\n| a |\n")
    page = Page(write_report([tmp_path]))
    assert (
        "comparison.md: an earlier version of segpl wrote these tables, and they are not shown."
        in page.text
    )
    assert "Study" not in page.tables


@pytest.mark.parametrize("content", ["", "header"])
def test_a_report_with_empty_tables_says_so_and_does_not_fail(study, tmp_path, content):
    for seed in (0, 1):
        shutil.copytree(
            study / "runs" / f"segpl_2-labelled_seed{seed}_abcd", tmp_path / "runs" / f"run-{seed}"
        )
    (tmp_path / "rank.csv").write_text("rank,case\n" if content else "")
    for file in (tmp_path / "runs").glob("*/*.csv"):
        first = file.read_text(encoding="utf-8").splitlines()[0]
        file.write_text(f"{first}\n" if content else "")
    page = Page(write_report([tmp_path]))
    assert "No run here has been scored" in page.text
    assert "The scores that matter most" not in page.tables


def test_a_run_without_scores_beside_one_with_is_named(study, tmp_path):
    for seed in (0, 1):
        shutil.copytree(
            study / "runs" / f"segpl_2-labelled_seed{seed}_abcd", tmp_path / f"run-{seed}"
        )
    for file in (tmp_path / "run-1").glob("*.csv"):
        file.unlink()
    page = Page(write_report([tmp_path]))
    assert "1 of 2 runs has not been scored: run-1." in page.text
    head, row = page.tables["The scores that matter most"]
    assert dict(zip(head, row, strict=True))["seeds"] == "1"


def test_a_report_does_with_settings_and_scores_alone(study, tmp_path):
    (tmp_path / "run").mkdir()
    for name in ("run.yaml", "scores.csv"):
        shutil.copy(study / "runs" / "segpl_2-labelled_seed0_abcd" / name, tmp_path / "run" / name)
    page = Page(write_report([tmp_path / "run"]))
    assert "The scores that matter most" in page.tables
    assert "Training and prediction" not in page.tables
    assert "Unknown whether unlabelled scans were used: run." in page.text


def test_scores_without_an_overlap_are_reported(study, tmp_path):
    shutil.copytree(study / "runs" / "segpl_2-labelled_seed0_abcd", tmp_path / "run")
    file = tmp_path / "run" / "scores.csv"
    scores = pd.read_csv(file)
    scores[scores["metric"] == "ece"].to_csv(file, index=False)
    page = Page(write_report([tmp_path / "run"]))
    assert "No test subject has a defined IoU" in page.text
    assert page.tables["The scores that matter most"][0] == [
        "labelled",
        "method",
        "ECE %",
        "worst subject IoU %",
        "seeds",
        "subjects",
    ]


def test_a_study_that_names_no_run_of_its_folder_is_refused(study, tmp_path):
    shutil.copytree(study / "runs" / "segpl_2-labelled_seed0_abcd", tmp_path / "runs" / "run")
    (tmp_path / RUNS_FILE).write_text("{}")
    with pytest.raises(UserError, match="names no run"):
        write_report([tmp_path])


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds no run"):
        write_report([tmp_path])
    with pytest.raises(UserError, match="is not a folder"):
        write_report([tmp_path / "none"])
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.yaml").write_text("a: [")
    with pytest.raises(UserError, match=r"run\.yaml cannot be read"):
        write_report([tmp_path / "run"])


def test_runs_of_two_tasks_do_not_mix(study, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(study / "runs" / "segpl_2-labelled_seed0_abcd", tmp_path / name)
    (tmp_path / "b" / "task.yaml").write_text("channels: [ct]\nregions: []\n")
    with pytest.raises(UserError, match="different tasks"):
        write_report([tmp_path])


def test_the_report_never_imports_torch():
    code = "import sys, segpl.reporting.page; assert not {'torch', 'lightning', 'monai'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_sheet_holds_every_slice_at_its_place():
    volume = np.arange(np.prod(SHAPE), dtype=np.uint8).reshape(SHAPE)
    whole = sheet(volume)  # five slices: three across, two down
    assert whole.shape == (2 * SHAPE[0], 3 * SHAPE[1])
    assert (whole[SHAPE[0] :, SHAPE[1] : 2 * SHAPE[1]] == volume[..., 4]).all()
    assert not whole[SHAPE[0] :, 2 * SHAPE[1] :].any()


def test_entropy_is_that_of_the_least_sure_region():
    per_cent = np.array([[0, 50, 100, 90], [0, 100, 25, 99]], np.uint8)
    assert largest_entropy(per_cent) == pytest.approx([0, 1, 0.811278, 0.468996], abs=1e-4)


def test_confidence_by_hand():
    per_cent = np.array([50, 80, 20], np.uint8)
    assert confidence(per_cent, 1.0) == pytest.approx([0.5, 0.8, 0.8])
    assert confidence(per_cent, 2.0) == pytest.approx(
        [0.5, 2 / 3, 2 / 3]
    )  # odds of 4 become odds of 2


def test_priors_of_every_kind_have_moments():
    assert prior_moments({"name": "normal", "mean": 0.4, "deviation": 0.2}) == (0.4, 0.2)
    assert prior_moments({"name": "beta", "a": 12, "b": 12}) == pytest.approx((0.5, 0.1))
    assert prior_moments({"name": "categorical", "thresholds": [0.2, 0.4]}) == pytest.approx(
        (0.3, 0.1)
    )
    weighted = {"name": "categorical", "thresholds": [0.2, 0.4], "weights": [3, 1]}
    assert prior_moments(weighted) == pytest.approx((0.25, 0.03**0.5 / 2))
    assert prior_moments({"name": "fixed", "threshold": 0.3}) == (0.3, 0)
    assert prior_moments({"name": "uniform"}) == pytest.approx((0.5, 0.288675))
    assert np.isnan(prior_moments({})).all()


def test_the_prior_of_an_ensembles_members_is_found(tmp_path):
    run = run_folder(tmp_path / "run", tmp_path, cases=("a",))
    settings = yaml.safe_load((run / "run.yaml").read_text())
    member = settings["method"] | {"prior": {"name": "normal", "mean": 0.3, "deviation": 0.2}}
    (run / "run.yaml").write_text(
        yaml.safe_dump(settings | {"method": {"name": "e", "base": {"base": member}}})
    )
    numbers = thresholds(gather([run]))
    assert set(numbers["prior_mean"]) == {0.3}
    assert set(numbers["prior_deviation"]) == {0.2}
