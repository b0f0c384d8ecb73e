"""Every command through the command line, on runs of two steps."""

import csv
import json
import re
from pathlib import Path

import pandas as pd
import pytest

import segpl.benchmark
import segpl.cli
import segpl.demo
from segpl.benchmark.steps import Configuration
from segpl.cli import run_command
from segpl.cli.app import app

SMALL = {"labelled": 1, "steps": 2, "channels": 4, "ratio": 1, "validate_every": 2}
SMALL_PATCH = SMALL | {"patch": [32, 32]}
OPTIONS = [f"--set={key}={value}" for key, value in SMALL_PATCH.items()]


def call(*words):
    """Run a command that must succeed."""
    assert run_command([str(word) for word in words]) == 0


@pytest.fixture(scope="module")
def runs(tumours, tmp_path_factory):
    """A folder with a scored run of each of two methods."""
    folder = tmp_path_factory.mktemp("runs")
    for method in ("supervised", "segpl-em"):
        call("train", tumours, "--method", method, "--out", folder / method, *OPTIONS)
        call("evaluate", folder / method)
    return folder


@pytest.fixture
def study_file(tumours, tmp_path):
    file = tmp_path / "study.yaml"
    study = {
        "title": "One run",
        "data": str(tumours),
        "methods": ["supervised"],
        "budgets": [1],
        "seeds": [0],
        "settings": {key: SMALL_PATCH[key] for key in SMALL_PATCH if key != "labelled"},
    }
    file.write_text(json.dumps(study))
    return file


def test_train_and_evaluate_write_a_score_for_each_case_and_region(runs):
    scores = pd.read_csv(runs / "segpl-em/scores.csv")
    columns = "run method seed labelled subject case region shift level metric value"
    assert list(scores.columns) == columns.split()
    ious = scores[scores["metric"] == "iou"]
    assert len(ious) == 2 * 3  # cases, regions


def test_run_answers_whether_the_unlabelled_scans_help(tumours, tmp_path, capsys):
    out = tmp_path / "answer"
    call("run", tumours, "--out", out, "--seeds", 1, "--quiet", *OPTIONS[1:], "--labelled", 1)
    output = capsys.readouterr()
    assert output.out.startswith("Verdict     Inconclusive: ")
    assert output.err == ""
    for name in (
        "masks/cases.csv",
        "masks/overview.html",
        "rank.csv",
        "report.html",
        "summary.txt",
    ):
        assert (out / name).is_file()


def test_train_has_either_a_number_of_steps_or_of_minutes(tumours, tmp_path, capsys):
    words = ["train", str(tumours), "--out", str(tmp_path / "run")]
    assert run_command([*words, "--steps", "2", "--minutes", "1"]) == 2
    assert "--steps or --minutes, not both" in capsys.readouterr().err


def test_evaluate_scores_shifted_scans(runs, tmp_path, capsys):
    file = tmp_path / "shifted.csv"
    call("evaluate", runs / "supervised", "--shift", "ood=0.5", "--out", file)
    assert "Foreground IoU" in capsys.readouterr().out
    assert set(pd.read_csv(file)["shift"]) == {"clean", "ood"}


def test_predict_writes_a_mask_for_each_scan(runs, tumours, tmp_path):
    out = tmp_path / "masks"
    call("predict", runs / "segpl-em", tumours / "imagesTs", "--out", out, "--temperature", "2")
    with (out / "cases.csv").open() as file:
        cases = {row["case"] for row in csv.DictReader(file)}
    assert len(cases) == 2
    for case in cases:
        assert (out / f"{case}.nii.gz").exists()


def test_rank_lists_unlabelled_scans(runs, tmp_path):
    file = tmp_path / "rank.csv"
    call("rank", runs / "segpl-em", "--out", file, "--count", 2)
    assert len(pd.read_csv(file)) == 2


def test_compare_prints_a_verdict(runs, capsys):
    call("compare", runs)
    assert "segpl-em" in capsys.readouterr().out


def test_compare_prints_json(runs, capsys):
    call("compare", runs, "--json")
    comparison = json.loads(capsys.readouterr().out)
    assert [verdict["method"] for verdict in comparison["verdicts"]] == ["segpl-em"]


def test_report_compares_with_the_baseline_that_is_asked_for(runs, tmp_path):
    page = tmp_path / "page.html"
    call("report", runs, "--baseline", "segpl-em", "--out", page)
    assert "than segpl-em training" in page.read_text(encoding="utf-8")


def test_report_writes_one_page(runs, tmp_path):
    page = tmp_path / "page.html"
    call("report", runs, "--out", page)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_view_prints_an_address_with_a_token_and_the_next_training(runs, monkeypatch, capsys):
    uvicorn = pytest.importorskip("uvicorn", reason="the extra view is not installed")

    def stopped(_server, sockets):
        raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn.Server, "run", stopped)
    monkeypatch.setattr("segpl.viewer.serving.require_niivue", lambda: None)
    call("view", runs / "segpl-em", "--no-browser")
    printed = capsys.readouterr()
    assert re.search(r"http://127\.0\.0\.1:\d+/[\w-]{43}/", printed.out)
    assert "segpl train" in printed.err


def test_export_writes_a_model(runs, tmp_path):
    model = tmp_path / "model.onnx"
    call("export", runs / "supervised", "--format", "onnx", "--out", model)
    assert model.stat().st_size > 1000


def test_doctor_prints_json(tumours, capsys):
    call("doctor", tumours, "--json")
    diagnosis = json.loads(capsys.readouterr().out)
    assert diagnosis["problems"] == []


def test_phantom_writes_a_data_set(tmp_path):
    call("phantom", "vessels", "--out", tmp_path / "data", "--subjects", 3)
    assert (tmp_path / "data/dataset.json").exists()


def test_study_trains_and_tabulates_its_runs(study_file, tmp_path):
    out = tmp_path / "study"
    call("study", study_file, "--out", out)
    assert list(out.rglob("scores.csv"))


def test_search_writes_the_best_settings(tumours, tmp_path):
    settings = SMALL_PATCH | {"method": "supervised", "validation": 1}
    space = {"learning_rate": {"low": 0.001, "high": 0.01}}
    file = tmp_path / "search.yaml"
    file.write_text(json.dumps({"data": str(tumours), "settings": settings, "space": space}))
    call("search", file, "--out", tmp_path / "search", "--trials", 1)
    assert list((tmp_path / "search").glob("*.yaml"))


def test_demo_prints_a_table(tmp_path, monkeypatch, capsys):
    write_phantoms = segpl.demo.write_phantoms
    monkeypatch.setitem(segpl.demo.SETTINGS, "tumour", SMALL_PATCH)
    monkeypatch.setattr(
        segpl.demo, "write_phantoms", lambda task, folder, subjects: write_phantoms(task, folder, 6)
    )
    call("demo", "--out", tmp_path / "demo")
    assert "segpl-em" in capsys.readouterr().out


@pytest.mark.slow
def test_benchmark_writes_its_numbers(tmp_path, monkeypatch):
    flat = Configuration("BRATS, 2D", 2, 2, 4, (16, 16), 2, 4)
    deep = Configuration("CARVE, 3D", 1, 1, 4, (16, 16, 3), 2, 2)
    monkeypatch.setattr(segpl.benchmark, "BRATS", flat)
    monkeypatch.setattr(segpl.benchmark, "CARVE", deep)
    file = tmp_path / "numbers.json"
    call("benchmark", "--quick", "--repeats", 1, "--out", file)
    assert json.loads(file.read_text())["steps"]


def test_commands_end_with_the_next_command(runs, tumours, tmp_path, capsys):
    commands = [
        ["evaluate", runs / "supervised"],
        ["predict", runs / "supervised", tumours / "imagesTs", "--out", tmp_path / "masks"],
        ["rank", runs / "segpl-em", "--out", tmp_path / "rank.csv"],
        ["compare", runs],
        ["report", runs, "--out", tmp_path / "page.html"],
        ["export", runs / "supervised", "--format", "bundle", "--out", tmp_path / "bundle"],
        ["methods", "segpl-em"],
    ]
    for words in commands:
        call(*words)
        assert "Next: " in capsys.readouterr().err, words[0]


def test_quiet_commands_print_results_only(runs, tumours, tmp_path, capsys):
    call("evaluate", runs / "supervised", "--quiet")
    out = tmp_path / "masks"
    call("predict", runs / "supervised", tumours / "imagesTs", "--out", out, "--quiet")
    call("train", tumours, "--out", tmp_path / "run", "--method", "supervised", *OPTIONS, "--quiet")
    output = capsys.readouterr()
    assert output.err == ""
    assert "2 masks in" in output.out


def test_results_can_be_printed_as_json(runs, tumours, tmp_path, capsys):
    call("evaluate", runs / "supervised", "--json")
    scores = json.loads(capsys.readouterr().out)
    assert {"dice", "iou"} <= {row["metric"] for row in scores}
    out = tmp_path / "masks"
    call("predict", runs / "supervised", tumours / "imagesTs", "--out", out, "--json")
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 2 * 3  # scans, regions
    assert {"volume_ml", "expected_dice", "check"} <= rows[0].keys()
    call("rank", runs / "segpl-em", "--out", tmp_path / "rank.csv", "--json")
    assert "reason" in json.loads(capsys.readouterr().out)[0]


def test_a_model_is_exported_with_a_card(runs, tmp_path):
    call("export", runs / "supervised", "--format", "onnx", "--out", tmp_path / "model.onnx")
    card = (tmp_path / "model-MODEL_CARD.md").read_text()
    for heading in ("Training data", "Scores", "Intended use", "Limits"):
        assert f"## {heading}" in card
    assert "| whole tumour |" in card
    assert "1 cases learnt from with their labels" in card


def test_every_command_that_is_proposed_next_exists():
    commands = {command.callback.__name__ for command in app.registered_commands}
    for file in Path(segpl.cli.__file__).parent.glob("*.py"):
        source = file.read_text(encoding="utf-8")
        for name in re.findall(r'\["segpl", "(\w+)"', source):
            assert name in commands, file


def test_this_file_calls_every_command():
    source = Path(__file__).read_text(encoding="utf-8")
    names = [command.callback.__name__ for command in app.registered_commands]
    uncalled = [name for name in names if f'call("{name}"' not in source]
    assert uncalled == ["methods"]  # tests/cli/test_methods.py calls it
