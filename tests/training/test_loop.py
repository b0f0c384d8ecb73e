"""The loop: what a run leaves behind, that it is determined by its run.yaml, and that a stop leaves no trace."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import lightning
import pytest
import torch
from safetensors.torch import load_file

import segpl
from segpl.data.layouts import read_dataset
from segpl.foundation.errors import UserError
from segpl.foundation.progress import in_words
from segpl.methods import DEFAULT, METHODS
from segpl.methods.segpl_em import SegPLEM
from segpl.settings.planning import plan_run
from segpl.settings.run import read_run
from segpl.training.loop import Learner, train
from segpl.training.pace import seconds_per_step, within_minutes

SMALL = {
    "steps": 5,
    "validate_every": 2,
    "channels": 4,
    "ratio": 1,
    "labelled": 1,
    "validation": 1,
    "augment": 0.5,
}


@pytest.fixture(params=["2D", "3D"])
def planned(request, tumours, vessels):
    """A run on tumour slices and one on vessel volumes, small enough to test with."""
    data, patch = (tumours, [32, 32]) if request.param == "2D" else (vessels, [16, 16, 8])
    return lambda method: plan_run(data, {"method": method, "patch": patch, **SMALL})


def results(directory):
    return (directory / "log.csv").read_text(), load_file(directory / "model.safetensors")


def assert_same(first, second):
    (log, weights), (other_log, other_weights) = results(first), results(second)
    assert log == other_log
    assert weights.keys() == other_weights.keys()
    assert all(torch.equal(weight, other_weights[name]) for name, weight in weights.items())


class StumbleError(Exception):
    pass


def train_to_step_3(run, directory, monkeypatch):
    """One step after the first checkpoint, and no further."""
    step = Learner.training_step

    def stumble(self, batch, index):
        if self.global_step == 3:
            raise StumbleError
        return step(self, batch, index)

    with monkeypatch.context() as patched:
        patched.setattr(Learner, "training_step", stumble)
        with pytest.raises(StumbleError):
            train(run, directory)


OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in METHODS if name != DEFAULT]


@pytest.mark.parametrize("method", [DEFAULT, *OTHERS])
def test_resume_equals_no_stop(method, planned, tmp_path, monkeypatch):
    run = planned(method)
    train(run, tmp_path / "undisturbed")
    train_to_step_3(run, tmp_path / "stopped", monkeypatch)
    assert not (tmp_path / "stopped/model.safetensors").exists()
    train(run, tmp_path / "stopped", resume=True)
    assert_same(tmp_path / "undisturbed", tmp_path / "stopped")


def test_resume_equals_no_stop_without_validation(tumours, tmp_path, monkeypatch):
    run = plan_run(tumours, {"method": "segpl-vi", "patch": [32, 32], **SMALL, "validation": 0})
    train(run, tmp_path / "undisturbed")
    train_to_step_3(run, tmp_path / "stopped", monkeypatch)
    train(run, tmp_path / "stopped", resume=True)
    assert_same(tmp_path / "undisturbed", tmp_path / "stopped")


def test_a_run_directory_holds_what_later_stages_need(planned, tmp_path):
    run = planned("segpl-vi")
    train(run, tmp_path / "run")
    assert read_run(tmp_path / "run") == run
    rows = list(csv.DictReader((tmp_path / "run/log.csv").open()))
    assert [int(row["step"]) for row in rows] == [1, 2, 3, 4, 5]
    assert {"loss", "labelled", "unlabelled", "kl", "threshold", "learning_rate"} <= rows[0].keys()
    assert [row["validation_iou"] != "" for row in rows] == [False, True, False, True, True]
    assert float(rows[0]["learning_rate"]) == pytest.approx(run.learning_rate)
    assert json.loads((tmp_path / "run/provenance.json").read_text())[0]["packages"]["torch"]
    assert (tmp_path / "run/checkpoints/last.ckpt").is_file()


def test_a_term_that_begins_late_has_a_column_in_the_log_from_then_on(planned, tmp_path):
    """Validations follow steps 2, 4 and 5; the unlabelled images count from step 4 on, in the midst of the second."""
    train(planned({"name": "segpl-em", "start": 0.6, "warm_up": 0.0}), tmp_path / "run")
    rows = list(csv.DictReader((tmp_path / "run/log.csv").open()))
    assert [int(row["step"]) for row in rows] == [1, 2, 3, 4, 5]
    assert [row["unlabelled"] != "" for row in rows] == [False, False, False, True, True]
    assert [row["validation_iou"] != "" for row in rows] == [False, True, False, True, True]


def test_the_kept_weights_are_the_best_on_validation(planned, tmp_path, monkeypatch):
    """The second of three validations is made the best; the weights must be those of its checkpoint."""
    values, kept = iter([0.1, 0.9, 0.5]), []

    def rated(self, case, _):
        kept.append({name: weight.clone() for name, weight in self.model.state_dict().items()})
        self.validated.append(torch.tensor(next(values)))

    monkeypatch.setattr(Learner, "validation_step", rated)
    train(planned("supervised"), tmp_path / "run")
    _, weights = results(tmp_path / "run")
    assert all(torch.equal(weight, kept[1][name]) for name, weight in weights.items())


def test_without_validation_the_weights_of_the_last_step_are_kept(tumours, tmp_path, capsys):
    run = plan_run(tumours, {"method": "segpl", "patch": [32, 32], **SMALL, "validation": None})
    train(run, tmp_path / "run")
    assert (
        "No validation subjects: the weights of the last step are kept." in capsys.readouterr().err
    )
    log, weights = results(tmp_path / "run")
    last = torch.load(tmp_path / "run/checkpoints/last.ckpt", weights_only=False)
    assert last["global_step"] == run.steps
    assert all(
        torch.equal(weight, last["state_dict"][f"model.{name}"]) for name, weight in weights.items()
    )
    assert {row["validation_iou"] for row in csv.DictReader(log.splitlines())} == {""}
    split = json.loads((tmp_path / "run/split.json").read_text())
    assert split["labelled_subjects"] == {
        "total": 1,
        "learning": 1,
        "validation": 0,
        "extra_validation": False,
    }
    assert len(split["unlabelled"]) == 3, (
        "the labelled subject that was not drawn is an unlabelled scan"
    )


def test_the_last_checkpoint_is_the_last_though_validation_gets_worse(
    planned, tmp_path, monkeypatch
):
    """A run that is stopped again and again must not go back to its best step each time."""
    values = iter([0.9, 0.5, 0.1])
    monkeypatch.setattr(
        Learner,
        "validation_step",
        lambda self, *_: self.validated.append(torch.tensor(next(values))),
    )
    train(planned("supervised"), tmp_path / "run")
    best, last = (
        torch.load(tmp_path / f"run/checkpoints/{it}.ckpt", weights_only=False)
        for it in ("best", "last")
    )
    assert (best["global_step"], last["global_step"]) == (2, 5)


def test_a_run_that_was_moved_still_knows_its_best_weights(planned, tmp_path, monkeypatch):
    """Stopped after a good validation, moved, and resumed to bad ones: the kept weights are those of the good one."""
    run, values = planned("supervised"), iter([0.9, 0.5, 0.1])
    monkeypatch.setattr(
        Learner,
        "validation_step",
        lambda self, *_: self.validated.append(torch.tensor(next(values))),
    )
    train_to_step_3(run, tmp_path / "here", monkeypatch)
    shutil.move(tmp_path / "here", tmp_path / "there")
    train(run, tmp_path / "there", resume=True)
    best = torch.load(tmp_path / "there/checkpoints/best.ckpt", weights_only=False)
    assert best["global_step"] == 2
    assert not (tmp_path / "here").exists()


def test_training_never_touches_the_test_cases(tumours, tmp_path):
    """A data folder whose test images are garbage trains to the same weights."""
    garbage = shutil.copytree(tumours, tmp_path / "data")
    for file in [*garbage.glob("imagesTs/*"), *garbage.glob("labelsTs/*")]:
        file.write_bytes(b"not an image")
    settings = {"method": "segpl", "patch": [32, 32], **SMALL}
    train(plan_run(tumours, settings), tmp_path / "whole")
    train(plan_run(garbage, settings), tmp_path / "garbage")
    assert_same(tmp_path / "whole", tmp_path / "garbage")


def test_from_python_a_stopped_run_goes_on_without_being_told_again(tumours, tmp_path, monkeypatch):
    run = plan_run(tumours, {"method": "segpl", "patch": [32, 32], **SMALL})
    train(run, tmp_path / "undisturbed")
    train_to_step_3(run, tmp_path / "stopped", monkeypatch)
    segpl.train(tumours, tmp_path / "stopped", resume=True)
    assert_same(tmp_path / "undisturbed", tmp_path / "stopped")


def test_a_run_directory_is_not_overwritten(planned, tmp_path):
    run = planned("supervised")
    train(run, tmp_path / "run")
    with pytest.raises(UserError, match="holds a run already: add --resume"):
        train(run, tmp_path / "run")
    with pytest.raises(UserError, match=r"run.yaml was started with method: .*supervised.*"):
        train(planned("segpl"), tmp_path / "run", resume=True)
    (
        tmp_path / "run/model.safetensors"
    ).unlink()  # as if it had been stopped, and its file then edited
    edited = replace(run, learning_rate=0.5)
    edited.save(tmp_path / "run")
    with pytest.raises(
        UserError, match=r"run.yaml was changed after the run had begun: give the changed file to"
    ):
        train(edited, tmp_path / "run", resume=True)
    last = tmp_path / "run/checkpoints/last.ckpt"
    last.write_bytes(last.read_bytes()[:-2000])
    with pytest.raises(
        UserError, match=r"last.ckpt cannot be read: delete it, and --resume begins again"
    ):
        train(run, tmp_path / "run", resume=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="mine is not empty"):
        train(run, tmp_path / "mine")


def test_a_kill_and_resume_give_the_same_log_and_weights(tumours, tmp_path, segpl):
    words = ["train", tumours, "--method", "segpl-vi", "--labelled", 1, "--steps", 30]
    for setting in ("validate_every=5", "channels=4", "patch=[48, 48]", "ratio=2"):
        words += ["--set", setting]
    assert segpl(*words, "--out", tmp_path / "undisturbed").returncode == 0
    command = [sys.executable, "-m", "segpl", *map(str, words), "--out", str(tmp_path / "killed")]
    process = subprocess.Popen(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL
    )
    checkpoint = tmp_path / "killed/checkpoints/last.ckpt"
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.02)
    time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the training ended before it could be killed"
    assert segpl("train", tumours, "--out", tmp_path / "killed", "--resume").returncode == 0
    assert_same(tmp_path / "undisturbed", tmp_path / "killed")


def test_the_log_goes_to_tensorboard_too_and_a_resumed_run_shows_no_step_twice(
    planned, tmp_path, monkeypatch
):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = planned("segpl")
    train_to_step_3(run, tmp_path / "run", monkeypatch)
    time.sleep(1.1)  # TensorBoard reads its files in the order of their names, which count seconds
    train(run, tmp_path / "run", resume=True)
    shown = EventAccumulator(str(tmp_path / "run/tensorboard")).Reload()
    rows = list(csv.DictReader((tmp_path / "run/log.csv").open()))
    losses = [(event.step, pytest.approx(event.value)) for event in shown.Scalars("loss")]
    assert [(int(row["step"]), float(row["loss"])) for row in rows] == losses
    validated = [event.step for event in shown.Scalars("validation_iou")]
    assert validated == [int(row["step"]) for row in rows if row["validation_iou"]]


@pytest.mark.usefixtures("utf_8")
def test_a_compiled_run_resumes_as_if_it_had_not_stopped(tumours, tmp_path, monkeypatch):
    run = plan_run(tumours, {"method": "segpl", "patch": [32, 32], **SMALL, "compile": True})
    plain = plan_run(tumours, {"method": "segpl", "patch": [32, 32], **SMALL, "compile": False})
    train(run, tmp_path / "undisturbed")
    train_to_step_3(run, tmp_path / "stopped", monkeypatch)
    train(run, tmp_path / "stopped", resume=True)
    assert_same(tmp_path / "undisturbed", tmp_path / "stopped")
    train(plain, tmp_path / "plain")
    (log, _), (other, _) = results(tmp_path / "undisturbed"), results(tmp_path / "plain")
    assert log != other, "it was compiled indeed: not the same to the last bit"
    losses = [
        [float(row["loss"]) for row in csv.DictReader(text.splitlines())] for text in (log, other)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU may train in half precision")
def test_a_processor_trains_in_full_precision(tumours, tmp_path):
    """bfloat16 convolutions on a processor use AMX, which kills the process where it is trapped."""

    class Precision(lightning.Callback):
        def on_train_start(self, trainer, learner):
            self.of_trainer = trainer.precision
            self.of_products = torch.get_float32_matmul_precision()

    seen = Precision()
    run = plan_run(tumours, {"method": "supervised", "patch": [32, 32], **SMALL, "steps": 1})
    train(run, tmp_path / "run", watchers=[seen])
    assert seen.of_trainer == "32-true"
    assert seen.of_products == "highest"


def test_a_training_says_beforehand_how_long_it_will_take(planned, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("segpl.training.pace.seconds_per_step", lambda run, task: 102.0)
    train(planned("supervised"), tmp_path / "run")
    seconds = 5 * 102 / 0.85  # the rest of the time goes into views, validation and checkpoints
    assert (
        f"5 steps: about {in_words(seconds)} of training on this machine" in capsys.readouterr().err
    )


@pytest.mark.slow
def test_minutes_choose_the_number_of_steps_and_the_run_can_be_repeated_exactly(
    tumours, tmp_path, monkeypatch, segpl
):
    monkeypatch.setattr("segpl.training.pace.seconds_per_step", lambda run, task: 0.17)
    run = plan_run(tumours, {"method": "supervised", "patch": [32, 32], **SMALL})
    shorter = within_minutes(run, read_dataset(tumours).task, 0.021)
    assert shorter.steps == 6, "1.26 s less 15 % at 0.17 s a step"
    assert (
        shorter.why["steps"] == "0.021 minutes at 0.17 s a step on the machine where the run began"
    )
    words = [
        "train",
        tumours,
        "--method",
        "supervised",
        "--labelled",
        1,
        "--set",
        "patch=[32,32]",
        "--set",
        "channels=4",
    ]
    done = segpl(*words, "--minutes", 0.01, "--out", tmp_path / "timed")
    assert done.returncode == 0, done.stderr
    kept = read_run(tmp_path / "timed")
    assert kept.steps >= 1
    assert kept.why["steps"].startswith("0.01 minutes at ")
    again = segpl(
        "train", tumours, "--config", tmp_path / "timed/run.yaml", "--out", tmp_path / "again"
    )
    assert again.returncode == 0, again.stderr
    assert read_run(tmp_path / "again").steps == kept.steps
    resumed = segpl(*words, "--minutes", 5, "--out", tmp_path / "timed", "--resume")
    assert resumed.returncode == 0, "a run that has begun keeps its length"
    assert read_run(tmp_path / "timed").steps == kept.steps


def test_a_step_is_timed_in_every_phase_of_the_run(planned, monkeypatch):
    """A method that begins with labels alone is not judged by its first, cheap steps."""
    run = planned("segpl-em")
    losses = SegPLEM.losses
    seen = []

    def spied(self, model, batch, progress):
        seen.append(progress)
        return losses(self, model, batch, progress)

    monkeypatch.setattr(SegPLEM, "losses", spied)
    assert seconds_per_step(run, read_dataset(run.data).task) > 0
    assert min(seen) < run.method.start < 0.5 < max(seen)
