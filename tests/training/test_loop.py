"""Training: what a run leaves behind, that run.yaml determines it, and that it resumes exactly."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace

import lightning
import pytest
import torch
from folder_in_use import folder_in_use
from safetensors.torch import load_file

import segpl
from segpl.data.cache import Cache
from segpl.data.layouts import read_dataset
from segpl.foundation.errors import UserError
from segpl.foundation.progress import format_duration
from segpl.methods import DEFAULT, METHODS
from segpl.methods.segpl_em import SegPLEM
from segpl.methods.supervised import Supervised
from segpl.settings.planning import plan_run
from segpl.settings.run import read_run
from segpl.settings.subjects import training_cases_of
from segpl.training.checkpoints import is_complete, newest_checkpoint
from segpl.training.learner import Learner
from segpl.training.loop import _load_volumes, train
from segpl.training.pseudo_label_health import reference
from segpl.training.timing import seconds_per_step, within_minutes

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
    """Plans a small run of a method: on tumour slices, and on vessel volumes."""

    def plan(method):
        if request.param == "2D":
            return plan_slices(tumours, method)
        return plan_run(vessels, {"method": method, "patch": [16, 16, 8], **SMALL})

    return plan


def plan_slices(data, method, **settings):
    return plan_run(data, {"method": method, "patch": [32, 32], **SMALL, **settings})


def read_log(directory):
    text = (directory / "log.csv").read_text()
    return list(csv.DictReader(text.splitlines()))


def read_weights(directory):
    return load_file(directory / "model.safetensors")


def read_checkpoint(directory, name):
    return torch.load(directory / f"checkpoints/{name}.ckpt", weights_only=False)


def assert_same_weights(weights, others):
    assert weights.keys() == others.keys()
    for name, weight in weights.items():
        assert torch.equal(weight, others[name]), name


def assert_same_training(first, second):
    assert (first / "log.csv").read_text() == (second / "log.csv").read_text()
    assert_same_weights(read_weights(first), read_weights(second))


def set_validation_ious(monkeypatch, *ious):
    """Let the validations find these IoUs, one after the other."""
    remaining = iter(ious)

    def validation_step(self, *_):
        self.case_ious.append(torch.tensor(next(remaining)))

    monkeypatch.setattr(Learner, "validation_step", validation_step)


class StopError(Exception):
    pass


def train_to_step_3(run, directory, monkeypatch):
    """Stop the training one step after the first checkpoint."""
    step = Learner.training_step

    def stop_at_step_3(self, batch, index):
        if self.global_step == 3:
            raise StopError
        return step(self, batch, index)

    with monkeypatch.context() as patched:
        patched.setattr(Learner, "training_step", stop_at_step_3)
        with pytest.raises(StopError):
            train(run, directory)


def test_members_of_a_deep_ensemble_see_different_images(tumours, tmp_path, monkeypatch):
    """Views and exchanged boxes apart, which are off: the crops themselves differ."""
    seen = []
    losses = Supervised.losses

    def remember(self, model, batch, progress):
        seen.append(batch.x_l)
        return losses(self, model, batch, progress)

    monkeypatch.setattr(Supervised, "losses", remember)
    plain = {"augment": 0.0, "exchange": 0.0, "batch": 2, "steps": 1}
    run = plan_slices(tumours, {"name": "deep-ensemble", "members": 3}, **plain)
    train(run, tmp_path / "run")
    first, second, third = seen[-3:]
    assert first.shape == (2, 4, 32, 32)
    assert not torch.equal(first, second)
    assert not torch.equal(first, third)
    assert not torch.equal(second, third)


OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in METHODS if name != DEFAULT]


@pytest.mark.parametrize("method", [DEFAULT, *OTHERS])
def test_resume_equals_no_stop(method, planned, tmp_path, monkeypatch):
    run = planned(method)
    train(run, tmp_path / "undisturbed")
    train_to_step_3(run, tmp_path / "stopped", monkeypatch)
    assert not (tmp_path / "stopped/model.safetensors").exists()
    train(run, tmp_path / "stopped", resume=True)
    assert_same_training(tmp_path / "undisturbed", tmp_path / "stopped")


def test_resume_equals_no_stop_without_validation(tumours, tmp_path, monkeypatch):
    run = plan_slices(tumours, "segpl-vi", validation=0)
    train(run, tmp_path / "undisturbed")
    train_to_step_3(run, tmp_path / "stopped", monkeypatch)
    train(run, tmp_path / "stopped", resume=True)
    assert_same_training(tmp_path / "undisturbed", tmp_path / "stopped")


def test_a_run_directory_holds_what_later_stages_need(planned, tmp_path):
    run = planned("segpl-vi")
    train(run, tmp_path / "run")
    assert read_run(tmp_path / "run") == run
    provenance = json.loads((tmp_path / "run/provenance.json").read_text())
    assert provenance[0]["packages"]["torch"]
    assert (tmp_path / "run/checkpoints/last.ckpt").is_file()


def test_the_log_has_a_row_per_step(planned, tmp_path):
    run = planned("segpl-vi")
    train(run, tmp_path / "run")
    rows = read_log(tmp_path / "run")
    assert [int(row["step"]) for row in rows] == [1, 2, 3, 4, 5]
    assert {"loss", "labelled", "unlabelled", "kl", "threshold", "learning_rate"} <= rows[0].keys()
    assert [row["validation_iou"] != "" for row in rows] == [False, True, False, True, True]
    assert float(rows[0]["learning_rate"]) == pytest.approx(run.learning_rate)


def test_a_loss_term_that_starts_late_has_a_column_in_the_log_from_then_on(planned, tmp_path):
    """Unlabelled images count from step 4 on, between the validations after steps 2 and 4."""
    train(planned({"name": "segpl-em", "start": 0.6, "warm_up": 0.0}), tmp_path / "run")
    rows = read_log(tmp_path / "run")
    assert [int(row["step"]) for row in rows] == [1, 2, 3, 4, 5]
    assert [row["unlabelled"] != "" for row in rows] == [False, False, False, True, True]
    assert [row["validation_iou"] != "" for row in rows] == [False, True, False, True, True]


def test_the_final_weights_are_the_best_on_validation(planned, tmp_path, monkeypatch):
    set_validation_ious(monkeypatch, 0.1, 0.9, 0.5)
    validated = []
    validation_step = Learner.validation_step

    def record_weights(self, *arguments):
        weights = self.model.state_dict()
        validated.append({name: weight.clone() for name, weight in weights.items()})
        validation_step(self, *arguments)

    monkeypatch.setattr(Learner, "validation_step", record_weights)
    train(planned("supervised"), tmp_path / "run")
    assert_same_weights(read_weights(tmp_path / "run"), validated[1])


def test_without_validation_the_weights_of_the_last_step_are_kept(tumours, tmp_path, capsys):
    run = plan_slices(tumours, "segpl", validation=None)
    train(run, tmp_path / "run")
    message = "No validation subjects: the weights of the last step are kept."
    assert message in capsys.readouterr().err
    last = read_checkpoint(tmp_path / "run", "last")
    assert last["global_step"] == run.steps
    weights = read_weights(tmp_path / "run")
    assert_same_weights({f"model.{name}": weights[name] for name in weights}, last["state_dict"])
    assert {row["validation_iou"] for row in read_log(tmp_path / "run")} == {""}


def test_all_labelled_subjects_are_learnt_from_where_they_are_few(tumours, tmp_path):
    train(plan_slices(tumours, "segpl", validation=None), tmp_path / "run")
    split = json.loads((tmp_path / "run/split.json").read_text())
    assert split["labelled_subjects"] == {
        "total": 1,
        "learning": 1,
        "validation": 0,
        "extra_validation": False,
    }
    assert len(split["unlabelled"]) == 3, "the other labelled subject is an unlabelled scan"


def test_the_last_checkpoint_is_the_last_even_if_validation_gets_worse(
    planned, tmp_path, monkeypatch
):
    """A run that is stopped again and again must not return to its best step each time."""
    set_validation_ious(monkeypatch, 0.9, 0.5, 0.1)
    train(planned("supervised"), tmp_path / "run")
    assert read_checkpoint(tmp_path / "run", "best")["global_step"] == 2
    assert read_checkpoint(tmp_path / "run", "last")["global_step"] == 5


def test_a_run_that_was_moved_still_knows_its_best_weights(planned, tmp_path, monkeypatch):
    """Stopped after a good validation, moved, and resumed with bad validations."""
    run = planned("supervised")
    set_validation_ious(monkeypatch, 0.9, 0.5, 0.1)
    train_to_step_3(run, tmp_path / "here", monkeypatch)
    shutil.move(tmp_path / "here", tmp_path / "there")
    train(run, tmp_path / "there", resume=True)
    assert read_checkpoint(tmp_path / "there", "best")["global_step"] == 2
    assert not (tmp_path / "here").exists()


def test_training_never_touches_the_test_cases(tumours, tmp_path):
    """A data folder whose test images are garbage gives the same weights."""
    garbage = shutil.copytree(tumours, tmp_path / "data")
    for file in [*garbage.glob("imagesTs/*"), *garbage.glob("labelsTs/*")]:
        file.write_bytes(b"not an image")
    train(plan_slices(tumours, "segpl"), tmp_path / "intact")
    train(plan_slices(garbage, "segpl"), tmp_path / "garbage")
    assert_same_training(tmp_path / "intact", tmp_path / "garbage")


def test_from_python_a_stopped_run_resumes_without_its_settings(tumours, tmp_path, monkeypatch):
    run = plan_slices(tumours, "segpl")
    train(run, tmp_path / "undisturbed")
    train_to_step_3(run, tmp_path / "stopped", monkeypatch)
    segpl.train(tumours, tmp_path / "stopped", resume=True)
    assert_same_training(tmp_path / "undisturbed", tmp_path / "stopped")


@pytest.fixture(scope="module")
def supervised_run(tumours):
    return plan_slices(tumours, "supervised")


@pytest.fixture(scope="module")
def trained(supervised_run, tmp_path_factory):
    return train(supervised_run, tmp_path_factory.mktemp("trained") / "run")


@pytest.fixture
def finished(trained, tmp_path):
    """A finished run of its own for each test."""
    return shutil.copytree(trained, tmp_path / "run")


@pytest.fixture
def unfinished(finished):
    """A run that was stopped before its final weights were written."""
    (finished / "model.safetensors").unlink()
    return finished


def test_a_run_is_not_overwritten(supervised_run, finished):
    with pytest.raises(UserError, match="holds a run already: add --resume"):
        train(supervised_run, finished)


def test_a_run_is_not_resumed_with_another_method(tumours, finished):
    with pytest.raises(UserError, match=r"run.yaml was started with method: .*supervised.*"):
        train(plan_slices(tumours, "segpl"), finished, resume=True)


def test_a_run_whose_settings_were_edited_is_not_resumed(supervised_run, unfinished):
    edited = replace(supervised_run, learning_rate=0.5)
    edited.save(unfinished)
    message = r"run.yaml was changed after the run had begun: give the changed file to"
    with pytest.raises(UserError, match=message):
        train(edited, unfinished, resume=True)


@pytest.mark.parametrize("bytes_left", [0, 5000, -2000], ids=["empty", "cut", "end missing"])
def test_a_damaged_last_checkpoint_is_replaced_by_the_one_before(
    supervised_run, finished, trained, bytes_left
):
    (finished / "model.safetensors").write_bytes(b"")
    last = finished / "checkpoints/last.ckpt"
    last.write_bytes(last.read_bytes()[:bytes_left])
    train(supervised_run, finished, resume=True)
    assert_same_training(trained, finished)


def test_a_flipped_bit_in_a_checkpoint_is_noticed(unfinished):
    last = unfinished / "checkpoints/last.ckpt"
    assert is_complete(last)
    content = bytearray(last.read_bytes())
    content[len(content) // 2] ^= 1
    last.write_bytes(content)
    assert not is_complete(last)


def test_two_damaged_checkpoints_are_an_error(supervised_run, unfinished):
    for name in ("last", "previous"):
        (unfinished / f"checkpoints/{name}.ckpt").write_bytes(b"")
    message = r"last.ckpt cannot be read: delete .*checkpoints, and --resume begins again"
    with pytest.raises(UserError, match=message):
        train(supervised_run, unfinished, resume=True)


def test_checkpoints_are_written_beside_where_they_belong(supervised_run, tmp_path, monkeypatch):
    """Lightning writes through TMPDIR, which may be another disk, from where no file is renamed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    train(supervised_run, tmp_path / "run")
    files = sorted(file.name for file in (tmp_path / "run/checkpoints").iterdir())
    assert files == ["best.ckpt", "last.ckpt", "previous.ckpt"]


class SignalAtStep(lightning.Callback):
    """Sends a signal to this process in the middle of a step."""

    def __init__(self, step, number):
        self.step = step
        self.number = number

    def on_before_backward(self, trainer, learner, loss):
        if trainer.global_step == self.step:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("method", ["mean-teacher", "segpl-em"])
@pytest.mark.parametrize(
    ("number", "step", "checkpoint"),
    [(signal.SIGTERM, 2, "stopped"), (signal.SIGHUP, 3, "last"), (signal.SIGINT, 4, "last")],
    ids=["between validations", "at a validation", "at the last step"],
)
def test_a_signal_saves_a_checkpoint_from_which_training_resumes_exactly(
    tumours, tmp_path, method, number, step, checkpoint
):
    run = plan_slices(tumours, method)
    undisturbed = train(run, tmp_path / "undisturbed")
    stopped = tmp_path / "stopped"
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt) as raised:
        train(run, stopped, watchers=[SignalAtStep(step, number)])
    assert raised.value.exit_code == 128 + number
    assert signal.getsignal(number) is before
    assert read_checkpoint(stopped, checkpoint)["global_step"] == step + 1
    train(run, stopped, resume=True)
    assert_same_training(undisturbed, stopped)
    assert not (stopped / "checkpoints/stopped.ckpt").exists()


def test_of_two_checkpoints_the_one_of_the_later_step_is_resumed_from(unfinished):
    last = unfinished / "checkpoints/last.ckpt"
    older = last.with_name("stopped.ckpt")
    state = read_checkpoint(unfinished, "last")
    torch.save({**state, "global_step": state["global_step"] - 1}, older)
    assert newest_checkpoint(unfinished) == last
    torch.save({**state, "global_step": state["global_step"] + 1}, older)
    assert newest_checkpoint(unfinished) == older
    older.write_bytes(b"")
    assert newest_checkpoint(unfinished) == last


def test_a_directory_in_use_is_refused_and_that_of_a_dead_process_is_not(supervised_run, tmp_path):
    directory = tmp_path / "run"
    message = r"run is in use by another segpl command: wait"
    with folder_in_use(directory), pytest.raises(UserError, match=message):
        train(supervised_run, directory)
    train(supervised_run, directory)
    assert (directory / "model.safetensors").is_file()


def test_a_folder_of_other_files_is_not_used(supervised_run, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="mine is not empty"):
        train(supervised_run, tmp_path / "mine")


def test_a_kill_and_resume_give_the_same_log_and_weights(tumours, tmp_path, segpl):
    arguments = ["train", tumours, "--method", "segpl-vi", "--labelled", 1, "--steps", 30]
    for setting in ("validate_every=5", "channels=4", "patch=[48, 48]", "ratio=2"):
        arguments += ["--set", setting]
    assert segpl(*arguments, "--out", tmp_path / "undisturbed").returncode == 0
    kill_after_first_checkpoint(arguments, tmp_path / "killed")
    assert segpl("train", tumours, "--out", tmp_path / "killed", "--resume").returncode == 0
    assert_same_training(tmp_path / "undisturbed", tmp_path / "killed")


def kill_after_first_checkpoint(arguments, directory):
    command = [sys.executable, "-m", "segpl", *map(str, arguments), "--out", str(directory)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    checkpoint = directory / "checkpoints/last.ckpt"
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.02)
    time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the training ended before it could be killed"


def test_tensorboard_gets_the_log_and_a_resumed_run_shows_no_step_twice(
    planned, tmp_path, monkeypatch
):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = planned("segpl")
    train_to_step_3(run, tmp_path / "run", monkeypatch)
    time.sleep(1.1)  # TensorBoard sorts its files by name, which holds the time in seconds
    train(run, tmp_path / "run", resume=True)
    board = EventAccumulator(str(tmp_path / "run/tensorboard")).Reload()
    rows = read_log(tmp_path / "run")
    losses = [(int(row["step"]), float(row["loss"])) for row in rows]
    assert [(event.step, event.value) for event in board.Scalars("loss")] == [
        (step, pytest.approx(loss)) for step, loss in losses
    ]
    validated = [int(row["step"]) for row in rows if row["validation_iou"]]
    assert [event.step for event in board.Scalars("validation_iou")] == validated


@pytest.mark.usefixtures("utf_8")
def test_a_compiled_run_resumes_exactly(tumours, tmp_path, monkeypatch):
    run = plan_slices(tumours, "segpl", compile=True)
    train(run, tmp_path / "undisturbed")
    train_to_step_3(run, tmp_path / "stopped", monkeypatch)
    train(run, tmp_path / "stopped", resume=True)
    assert_same_training(tmp_path / "undisturbed", tmp_path / "stopped")
    train(plan_slices(tumours, "segpl", compile=False), tmp_path / "plain")
    compiled = [float(row["loss"]) for row in read_log(tmp_path / "undisturbed")]
    plain = [float(row["loss"]) for row in read_log(tmp_path / "plain")]
    assert compiled == pytest.approx(plain, rel=1e-3)
    assert compiled != plain, "the last digits show that it was compiled"


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU may train in half precision")
def test_a_cpu_trains_in_full_precision(tumours, tmp_path):
    """bfloat16 convolutions on a CPU use AMX, which kills the process where it is trapped."""

    class Precision(lightning.Callback):
        def on_train_start(self, trainer, learner):
            self.of_trainer = trainer.precision
            self.of_products = torch.get_float32_matmul_precision()

    precision = Precision()
    run = plan_slices(tumours, "supervised", steps=1)
    train(run, tmp_path / "run", watchers=[precision])
    assert precision.of_trainer == "32-true"
    assert precision.of_products == "highest"


def test_a_training_announces_how_long_it_will_take(planned, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("segpl.training.timing.seconds_per_step", lambda run, task: 102.0)
    train(planned("supervised"), tmp_path / "run")
    seconds = 5 * 102 / 0.85  # views, validation and checkpoints take 15 % of the time
    message = f"5 steps: about {format_duration(seconds)} of training on this machine"
    assert message in capsys.readouterr().err


def test_minutes_choose_the_number_of_steps(tumours, monkeypatch):
    monkeypatch.setattr("segpl.training.timing.seconds_per_step", lambda run, task: 0.17)
    run = plan_slices(tumours, "supervised")
    shorter = within_minutes(run, read_dataset(tumours).task, 0.021)
    assert shorter.steps == 6, "1.26 s less 15 % at 0.17 s a step"
    reason = "0.021 minutes at 0.17 s a step on the machine where the run began"
    assert shorter.why["steps"] == reason


@pytest.mark.slow
def test_a_run_of_given_minutes_can_be_repeated_and_resumed(tumours, tmp_path, segpl):
    arguments = ["train", tumours, "--method", "supervised", "--labelled", 1]
    arguments += ["--set", "patch=[32,32]", "--set", "channels=4"]
    timed = tmp_path / "timed"
    done = segpl(*arguments, "--minutes", 0.01, "--out", timed)
    assert done.returncode == 0, done.stderr
    run = read_run(timed)
    assert run.steps >= 1
    assert run.why["steps"].startswith("0.01 minutes at ")
    repeated = tmp_path / "repeated"
    done = segpl("train", tumours, "--config", timed / "run.yaml", "--out", repeated)
    assert done.returncode == 0, done.stderr
    assert read_run(repeated).steps == run.steps
    done = segpl(*arguments, "--minutes", 5, "--out", timed, "--resume")
    assert done.returncode == 0, done.stderr
    assert read_run(timed).steps == run.steps, "a run that has begun keeps its length"


def test_steps_are_timed_in_every_phase_of_the_run(planned, monkeypatch):
    """A method that starts with labels only is not judged by its first, cheap steps."""
    run = planned("segpl-em")
    losses = SegPLEM.losses
    timed = []

    def record_progress(self, model, batch, progress):
        timed.append(progress)
        return losses(self, model, batch, progress)

    monkeypatch.setattr(SegPLEM, "losses", record_progress)
    assert seconds_per_step(run, read_dataset(run.data).task) > 0
    assert min(timed) < run.method.start < 0.5 < max(timed)


def test_training_knows_only_the_labelled_crops(vessels, tmp_path):
    settings = {"method": "supervised", "patch": [16, 16, 8], "crops": 3, **SMALL}
    run = plan_run(vessels, settings)
    dataset = read_dataset(vessels)
    cases = training_cases_of(run, dataset)
    volumes = _load_volumes(run, cases, dataset.task, Cache(tmp_path / "cache"))
    assert [volume.x.shape[1:] for volume in volumes.labelled] == [(16, 16, 8)] * 3
    of_crops = reference([volume.y for volume in volumes.labelled], run.patch)
    assert torch.equal(volumes.reference.foreground, of_crops.foreground)
    assert torch.equal(volumes.reference.meeting_probability, of_crops.meeting_probability)


def test_too_few_unlabelled_subjects_are_an_error(vessels, tmp_path):
    settings = {"method": "segpl", "patch": [16, 16, 8], "unlabelled": 99, **SMALL}
    with pytest.raises(UserError, match=r"unlabelled is 99, but .* leaves"):
        train(plan_run(vessels, settings), tmp_path / "run")
