"""The search: what it may look at, that trials are shared, and mistakes in its file."""

import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from segpl.foundation.errors import UserError
from segpl.settings.run import read_yaml, run_from
from segpl.study import search as module
from segpl.study.search import search

SETTINGS = "{method: segpl, labelled: 1, validation: 1, steps: 4, validate_every: 2, channels: 4, ratio: 1, patch: [32, 32]}"


def write(folder, tumours, space="learning_rate: {low: 0.001, high: 0.1, log: true}", extra=""):
    file = folder / "search.yaml"
    file.write_text(f"data: {tumours}\nsettings: {SETTINGS}\nspace:\n  {space}\n{extra}")
    return file


def test_the_best_trial_becomes_a_run_and_a_restart_adds_trials(tumours, tmp_path, monkeypatch):
    space = (
        "learning_rate: {low: 0.001, high: 0.1, log: true}\n  method.alpha: {choices: [0.05, 1.0]}"
    )
    file, out = write(tmp_path, tumours, space), tmp_path / "out"
    search(file, out, trials=2)
    assert len(pd.read_csv(out / "trials.csv")) == 2
    best = search(file, out, trials=3)
    trials = pd.read_csv(out / "trials.csv")
    assert trials["number"].tolist() == [0, 1, 2]
    assert trials["params_learning_rate"].nunique() == 3
    winner = trials.sort_values("value").iloc[-1]
    run = run_from(read_yaml(best), "best")
    assert run.learning_rate == pytest.approx(winner["params_learning_rate"])
    assert run.method.alpha == winner["params_method.alpha"]
    log = pd.read_csv(out / f"trials/{winner['number']:04}-seed0/log.csv")
    assert log["validation_iou"].max() == pytest.approx(winner["value"])
    monkeypatch.setattr(module, "train", lambda *_, **__: pytest.fail("there are enough trials"))
    search(file, out, trials=3)


def test_test_subjects_are_never_read(tumours, tmp_path, monkeypatch):
    from segpl.data import preparation as loading

    opened, read = [], loading.read_image
    monkeypatch.setattr(loading, "read_image", lambda file: opened.append(file) or read(file))
    monkeypatch.setenv(
        "SEGPL_CACHE", str(tmp_path / "cache")
    )  # an empty one: everything is read anew
    search(write(tmp_path, tumours), tmp_path / "out", trials=1)
    assert opened
    assert not [file for file in opened if file.parent.name.endswith("Ts")]


def test_a_trial_that_falls_behind_is_pruned(tumours, tmp_path, monkeypatch):
    optuna = module._optuna()
    monkeypatch.setattr(
        optuna.pruners, "MedianPruner", lambda **_: optuna.pruners.ThresholdPruner(lower=2.0)
    )
    with pytest.raises(
        UserError, match="no trial was trained to its end"
    ):  # an IoU never reaches 2
        search(write(tmp_path, tumours), tmp_path / "out", trials=1)
    assert not list((tmp_path / "out").rglob("*.ckpt"))


def test_the_search_that_is_shipped_can_begin(tumours, tmp_path, monkeypatch):
    shipped = (Path(__file__).parents[2] / "studies/search.yaml").read_text(encoding="utf-8")
    (tmp_path / "search.yaml").write_text(
        shipped.replace("labelled: 2", "labelled: 1")
    )  # the phantoms have no more
    monkeypatch.setattr(module, "train", lambda *_, **__: pytest.fail("it begins"))
    with pytest.raises(pytest.fail.Exception, match="it begins"):
        search(tmp_path / "search.yaml", tmp_path / "out", data=tumours)


def test_trials_of_another_search_are_not_taken_over(tumours, tmp_path, monkeypatch):
    search(write(tmp_path, tumours), tmp_path / "out", trials=1)
    monkeypatch.setattr(module, "train", lambda *_, **__: pytest.fail("nothing is to be trained"))
    search(write(tmp_path, tumours), tmp_path / "out", trials=1)
    file = write(tmp_path, tumours, "learning_rate: {choices: [0.01, 0.02]}")
    with pytest.raises(
        UserError, match=r"out holds trials of another search called search.*give another --out"
    ):
        search(file, tmp_path / "out", trials=1)


def test_two_processes_share_the_trials(tumours, tmp_path):
    file, out = write(tmp_path, tumours), tmp_path / "out"
    command = [sys.executable, "-m", "segpl", "search", file, "--out", out, "--trials", "3"]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8") for _ in range(2)]
    errors = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    trials = pd.read_csv(out / "trials.csv")
    assert (
        3 <= (trials["state"] == "COMPLETE").sum() <= 4
    )  # one may be under way when the third ends
    assert trials["number"].is_unique


@pytest.mark.parametrize(
    ("space", "extra", "sentence"),
    [
        (
            "lerning_rate: {low: 0.001, high: 0.1}",
            "",
            r"search.yaml, line 4, space.lerning_rate: .*unknown setting",
        ),
        (
            "learning_rate: {low: 0.1, high: 0.001}",
            "",
            r"line 4, space.learning_rate.*low must be below high",
        ),
        ("learning_rate: {low: 0, high: 1, log: true}", "", r"above 0 where log is true"),
        ("learning_rate: {low: 0.1}", "", r"line 4, .*give choices.* or low and high"),
        ("learning_rate: 3", "", r"line 4, space.learning_rate: learning_rate is 3"),
        ("ratio: {choices: [1]}", "trails: 3\n", r"line 5, trails: unknown setting 'trails'"),
        ("channels: {low: 4, high: 8}", "", r"line 4, space.channels: .*channels.*integer"),
        ("method.name: {choices: [segpol]}", "", r"there is no method 'segpol'"),
        (
            "method.objective: {choices: [dice, dice+bce, focal]}",
            "",
            r"line 4, space.method.objective: .*focal",
        ),
        ("method.start: {low: 0, high: 1.5}", "", r"line 4, space.method.start: .*1"),
    ],
)
def test_mistakes_name_line_and_key(space, extra, sentence, tumours, tmp_path):
    with pytest.raises(UserError, match=sentence):
        search(write(tmp_path, tumours, space, extra), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_other_mistakes(tumours, tmp_path):
    file = write(tmp_path, tumours)
    with pytest.raises(UserError, match="does not exist"):
        search(file, tmp_path / "out", data=tmp_path / "nowhere")
    with pytest.raises(UserError, match="--storage nonsense cannot be used"):
        search(file, tmp_path / "out", storage="nonsense")
    one_label = shutil.copytree(tumours, tmp_path / "one")
    (one_label / "labelsTr/tumour_001.nii.gz").unlink()
    with pytest.raises(
        UserError, match=r"has 1 labelled training subjects .* 1 for validation leave none"
    ):
        search(file, tmp_path / "out", data=one_label)
    file.write_text(file.read_text(encoding="utf-8").replace("validation: 1, ", ""))
    with pytest.raises(
        UserError, match=r"line 2, .*without validation subjects.* add 'validation: K' to settings"
    ):
        search(file, tmp_path / "out")
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    del values["space"]
    file.write_text(yaml.safe_dump(values))
    with pytest.raises(UserError, match="space is missing"):
        search(file, tmp_path / "out")
