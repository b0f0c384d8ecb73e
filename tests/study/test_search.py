"""The search: what it may look at, that trials are shared, and mistakes in its file."""

import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from study_files import replace_text

from segpl.data import scans
from segpl.foundation.errors import UserError
from segpl.settings.run import read_yaml, run_from
from segpl.study import search as module
from segpl.study.search import search

SETTINGS = (
    "{method: segpl, labelled: 1, validation: 1, steps: 4, validate_every: 2, "
    "channels: 4, ratio: 1, patch: [32, 32]}"
)
LEARNING_RATE = "learning_rate: {low: 0.001, high: 0.1, log: true}"


def write_search(folder, tumours, space=LEARNING_RATE, extra=""):
    """A search file with one or more lines of the space, and lines to add at its end."""
    file = folder / "search.yaml"
    file.write_text(f"data: {tumours}\nsettings: {SETTINGS}\nspace:\n  {space}\n{extra}")
    return file


def refuse_training(monkeypatch, reason):
    monkeypatch.setattr(module, "train", lambda *_, **__: pytest.fail(reason))


@pytest.fixture(scope="module")
def searched(tumours, tmp_path_factory):
    """A search file, its output folder and the best run after 2 trials and then a third."""
    folder = tmp_path_factory.mktemp("searched")
    space = f"{LEARNING_RATE}\n  method.alpha: {{choices: [0.05, 1.0]}}"
    file = write_search(folder, tumours, space)
    out = folder / "out"
    search(file, out, trials=2)
    assert len(pd.read_csv(out / "trials.csv")) == 2
    best = search(file, out, trials=3)
    return file, out, best


def test_a_restart_adds_trials_with_other_settings(searched):
    _, out, _ = searched
    trials = pd.read_csv(out / "trials.csv")
    assert trials["number"].tolist() == [0, 1, 2]
    assert trials["params_learning_rate"].nunique() == 3


def test_the_best_trial_becomes_a_run(searched):
    _, out, best = searched
    trials = pd.read_csv(out / "trials.csv")
    winner = trials.sort_values("value").iloc[-1]
    run = run_from(read_yaml(best), "best")
    assert run.learning_rate == pytest.approx(winner["params_learning_rate"])
    assert run.method.alpha == winner["params_method.alpha"]
    log = pd.read_csv(out / f"trials/{winner['number']:04}-seed0/log.csv")
    assert log["validation_iou"].max() == pytest.approx(winner["value"])


def test_when_there_are_enough_trials_nothing_is_trained(searched, monkeypatch):
    file, out, _ = searched
    refuse_training(monkeypatch, "there are enough trials")
    search(file, out, trials=3)


def test_test_subjects_are_never_read(tumours, tmp_path, monkeypatch):
    read_image = scans.read_image
    opened = []

    def record(file):
        opened.append(file)
        return read_image(file)

    monkeypatch.setattr(scans, "read_image", record)
    monkeypatch.setenv("SEGPL_CACHE", str(tmp_path / "cache"))  # empty: all files are read
    search(write_search(tmp_path, tumours), tmp_path / "out", trials=1)
    assert opened
    assert not [file for file in opened if file.parent.name.endswith("Ts")]


def test_a_pruned_trial_leaves_no_checkpoint(tumours, tmp_path, monkeypatch):
    optuna = module._import_optuna()
    prune_all = optuna.pruners.ThresholdPruner(lower=2.0)  # an IoU never reaches 2
    monkeypatch.setattr(optuna.pruners, "MedianPruner", lambda **_: prune_all)
    with pytest.raises(UserError, match="no trial was trained to its end"):
        search(write_search(tmp_path, tumours), tmp_path / "out", trials=1)
    assert not list((tmp_path / "out").rglob("*.ckpt"))


def test_the_search_that_is_shipped_can_begin(tumours, tmp_path, monkeypatch):
    shipped = (Path(__file__).parents[2] / "studies/search.yaml").read_text(encoding="utf-8")
    file = tmp_path / "search.yaml"
    # The phantoms have fewer labels than the search asks for.
    file.write_text(shipped.replace("labelled: 2", "labelled: 1"))
    refuse_training(monkeypatch, "it begins")
    with pytest.raises(pytest.fail.Exception, match="it begins"):
        search(file, tmp_path / "out", data=tumours)


def test_trials_of_another_search_are_refused(tumours, tmp_path, monkeypatch):
    out = tmp_path / "out"
    search(write_search(tmp_path, tumours), out, trials=1)
    refuse_training(monkeypatch, "nothing is to be trained")
    search(write_search(tmp_path, tumours), out, trials=1)
    file = write_search(tmp_path, tumours, "learning_rate: {choices: [0.01, 0.02]}")
    message = r"out holds trials of another search called search.*give another --out"
    with pytest.raises(UserError, match=message):
        search(file, out, trials=1)


def test_two_processes_share_the_trials(tumours, tmp_path):
    file = write_search(tmp_path, tumours)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "segpl", "search", file, "--out", out, "--trials", "3"]
    processes = []
    for _ in range(2):
        processes.append(subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8"))
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    trials = pd.read_csv(out / "trials.csv")
    complete = (trials["state"] == "COMPLETE").sum()
    assert 3 <= complete <= 4, "one may be running when the third ends"
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
        search(write_search(tmp_path, tumours, space, extra), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_missing_data_are_a_user_error(tumours, tmp_path):
    file = write_search(tmp_path, tumours)
    with pytest.raises(UserError, match="does not exist"):
        search(file, tmp_path / "out", data=tmp_path / "nowhere")


def test_an_unusable_storage_is_a_user_error(tumours, tmp_path):
    file = write_search(tmp_path, tumours)
    with pytest.raises(UserError, match="--storage nonsense cannot be used"):
        search(file, tmp_path / "out", storage="nonsense")


def test_too_few_labels_for_validation_are_a_user_error(tumours, tmp_path):
    file = write_search(tmp_path, tumours)
    one_label = shutil.copytree(tumours, tmp_path / "one")
    (one_label / "labelsTr/tumour_001.nii.gz").unlink()
    message = r"has 1 labelled training subjects .* 1 for validation leave none"
    with pytest.raises(UserError, match=message):
        search(file, tmp_path / "out", data=one_label)


def test_a_search_without_validation_subjects_is_a_user_error(tumours, tmp_path):
    file = write_search(tmp_path, tumours)
    replace_text(file, "validation: 1, ", "")
    message = r"line 2, .*without validation subjects.* add 'validation: K' to settings"
    with pytest.raises(UserError, match=message):
        search(file, tmp_path / "out")


def test_a_search_without_a_space_is_a_user_error(tumours, tmp_path):
    file = tmp_path / "search.yaml"
    file.write_text(f"data: {tumours}\nsettings: {SETTINGS}\n")
    with pytest.raises(UserError, match="space is missing"):
        search(file, tmp_path / "out")
