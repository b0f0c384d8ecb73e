"""Several processes share the images of each step, and together do what one does."""

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from segpl.foundation.errors import UserError
from segpl.foundation.processes import TOGETHER, Processes, is_first, requested_processes
from segpl.methods import METHODS
from segpl.settings.planning import plan_run
from segpl.training.loop import train


def torchrun(*arguments):
    launcher = ["torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    command = [sys.executable, "-m", *launcher, *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )


def test_two_processes_have_the_gradients_of_one():
    done = torchrun(Path(__file__).with_name("two_processes.py"))
    assert done.returncode == 0, done.stderr
    compared = set()
    for line in done.stdout.splitlines():
        columns = line.split()
        if len(columns) == 3:
            name, axes, difference = columns
            compared.add((name, int(axes)))
            assert float(difference) < 1e-5, line
    assert compared == set(product(METHODS, (2, 3)))


@pytest.mark.slow
def test_training_in_two_processes_is_training_in_one(segpl, tumours, tmp_path):
    arguments = ["train", tumours, "--method", "segpl-vi", "--labelled", 1, "--steps", 4]
    for setting in ("patch=[32,32]", "channels=4", "validate_every=2", "ratio=1", "augment=0.5"):
        arguments += ["--set", setting]
    one = segpl(*arguments, "--out", tmp_path / "one")
    two = segpl(*arguments, "--out", tmp_path / "two", "--devices", 2)
    assert one.returncode == two.returncode == 0, two.stderr
    assert two.stdout.count("is trained") == 1
    log_of_one = pd.read_csv(tmp_path / "one/log.csv")
    log_of_two = pd.read_csv(tmp_path / "two/log.csv")
    assert log_of_two["step"].tolist() == [1, 2, 3, 4]
    for column in ("loss", "labelled", "unlabelled", "kl", "threshold"):
        expected = log_of_one[column].to_numpy()
        found = log_of_two[column].to_numpy()
        # Adam divides by the size of a gradient, which amplifies the rounding of small ones.
        np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-3)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)
    assert segpl("evaluate", tmp_path / "two").returncode == 0


@pytest.mark.slow
def test_torchrun_is_recognised(tumours, tmp_path):
    arguments = ["train", tumours, "--method", "segpl", "--labelled", 1, "--steps", 1]
    for setting in ("patch=[32,32]", "channels=4", "ratio=1"):
        arguments += ["--set", setting]
    done = torchrun("-m", "segpl", *arguments, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert '"processes": 2' in (tmp_path / "run/cost.json").read_text(encoding="utf-8")


def test_a_command_in_a_slurm_job_trains_alone_and_loads_no_requeued_checkpoint(
    tumours, tmp_path, monkeypatch
):
    """Lightning would ask for the job's eight tasks, and load the checkpoint in the folder."""
    monkeypatch.setenv("SLURM_NTASKS", "8")
    monkeypatch.setenv("SLURM_JOB_NAME", "train")
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hpc_ckpt_1.ckpt").write_text("of another run")
    settings = {"patch": [32, 32], "channels": 4, "ratio": 1, "labelled": 1, "steps": 1}
    train(plan_run(tumours, {"method": "supervised", **settings}), tmp_path / "run")
    assert (tmp_path / "run/model.safetensors").is_file()


def test_srun_must_say_how_many_tasks_a_node_has(monkeypatch):
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    monkeypatch.delenv("SLURM_NTASKS_PER_NODE", raising=False)
    with pytest.raises(UserError, match="add --ntasks-per-node to srun"):
        requested_processes(None, None)


def test_a_batch_that_processes_cannot_share_is_an_error(segpl, tumours, tmp_path):
    arguments = ["--devices", 3, "--labelled", 1, "--steps", 1]
    done = segpl("train", tumours, "--out", tmp_path / "run", *arguments)
    assert done.returncode == 2
    assert "batch is 4, which 3 processes cannot share: --set batch=3" in done.stderr
    assert not (tmp_path / "run").exists()


ALONE = {}
TORCHRUN = {"TORCHELASTIC_RUN_ID": "x", "LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "8"}
SRUN = {
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_NTASKS_PER_NODE": "4",
}
BY_LIGHTNING = {TOGETHER: "2"}
SLURM_JOB_WITHOUT_SRUN = {"SLURM_NTASKS": "8", "SLURM_NNODES": "2"}


@pytest.fixture
def set_environment(monkeypatch):
    for name in (*TORCHRUN, *SRUN, *BY_LIGHTNING):
        monkeypatch.delenv(name, raising=False)

    def set_variables(variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_variables


@pytest.mark.parametrize(
    ("environment", "devices", "nodes"),
    [
        (ALONE, 1, 1),
        (TORCHRUN, 4, 2),
        (SRUN, 4, 2),
        (SLURM_JOB_WITHOUT_SRUN, 1, 1),
    ],
    ids=["alone", "torchrun", "srun", "job without srun"],
)
def test_the_launched_processes_are_recognised(environment, devices, nodes, set_environment):
    set_environment(environment)
    assert requested_processes(None, None) == Processes(devices, nodes)


@pytest.mark.parametrize("environment", [TORCHRUN, SRUN], ids=["torchrun", "srun"])
def test_devices_must_match_the_launched_processes(environment, set_environment):
    set_environment(environment)
    with pytest.raises(UserError, match="does not match what was started"):
        requested_processes(3, None)


@pytest.mark.parametrize(
    ("environment", "rank", "first"),
    [
        (TORCHRUN, {"RANK": "0"}, True),
        (TORCHRUN, {"RANK": "3"}, False),
        (SRUN, {"SLURM_PROCID": "1"}, False),
        (BY_LIGHTNING, {"LOCAL_RANK": "0", "NODE_RANK": "0"}, True),
        (BY_LIGHTNING, {"LOCAL_RANK": "1", "NODE_RANK": "0"}, False),
        (BY_LIGHTNING, {"LOCAL_RANK": "0", "NODE_RANK": "1"}, False),
    ],
)
def test_one_process_writes_and_prints(environment, rank, first, set_environment):
    set_environment({"SLURM_PROCID": "0", **environment, **rank})
    assert is_first() is first


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"])
def test_the_rank_of_another_program_does_not_keep_a_training_from_writing(
    name, tumours, tmp_path, monkeypatch
):
    monkeypatch.setenv(name, "1")
    settings = {"patch": [32, 32], "channels": 4, "ratio": 1, "labelled": 1, "steps": 1}
    train(plan_run(tumours, {"method": "supervised", **settings}), tmp_path / "run")
    assert (tmp_path / "run/model.safetensors").is_file()
    assert (tmp_path / "run/log.csv").is_file()
