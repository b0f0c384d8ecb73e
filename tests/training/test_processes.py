"""Several processes: they share each step's images, and together do what one does."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from segpl.foundation.errors import UserError
from segpl.foundation.processes import Processes, is_first, taking_part
from segpl.methods import METHODS
from segpl.settings.planning import plan_run
from segpl.training.loop import train


def torchrun(*words):
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--standalone",
        *map(str, words),
    ]
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
    rows = [line.split() for line in done.stdout.splitlines() if len(line.split()) == 3]
    assert sorted((name, int(axes)) for name, axes, _ in rows) == sorted(
        (n, d) for n in METHODS for d in (2, 3)
    )
    assert all(float(difference) < 1e-5 for _, _, difference in rows), rows


@pytest.mark.slow
def test_training_in_two_processes_is_training_in_one(segpl, tumours, tmp_path):
    settings = [
        f"--set={it}"
        for it in ("patch=[32,32]", "channels=4", "validate_every=2", "ratio=1", "augment=0.5")
    ]
    train = ["train", tumours, "--method", "segpl-vi", "--labelled", 1, "--steps", 4, *settings]
    one = segpl(*train, "--out", tmp_path / "one")
    two = segpl(*train, "--out", tmp_path / "two", "--devices", 2)
    assert one.returncode == two.returncode == 0, two.stderr
    assert two.stdout.count("is trained") == 1
    logs = [list(csv.DictReader((tmp_path / name / "log.csv").open())) for name in ("one", "two")]
    assert [row["step"] for row in logs[1]] == ["1", "2", "3", "4"]
    for column in ("loss", "labelled", "unlabelled", "kl", "threshold"):
        first, second = (torch.tensor([float(row[column]) for row in log]) for log in logs)
        # Adam divides by the size of a gradient, which makes much of the last digits of small ones
        torch.testing.assert_close(first, second, rtol=1e-2, atol=1e-3)
        torch.testing.assert_close(first[0], second[0], rtol=1e-5, atol=1e-6)
    assert segpl("evaluate", tmp_path / "two").returncode == 0


@pytest.mark.slow
def test_torchrun_is_recognised(tumours, tmp_path):
    settings = [f"--set={it}" for it in ("patch=[32,32]", "channels=4", "ratio=1")]
    words = ["train", tumours, "--method", "segpl", "--labelled", 1, "--steps", 1, *settings]
    done = torchrun("-m", "segpl", *words, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert '"processes": 2' in (tmp_path / "run/cost.json").read_text(encoding="utf-8")


def test_a_command_in_a_slurm_job_trains_alone_and_takes_over_no_other_run(
    tumours, tmp_path, monkeypatch
):
    """Lightning would ask for the job's eight tasks, and load whatever checkpoint SLURM's queue left in the folder."""
    for name, value in {"NTASKS": "8", "JOB_NAME": "train", "PROCID": "0"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hpc_ckpt_1.ckpt").write_text("of another run")
    settings = {"patch": [32, 32], "channels": 4, "ratio": 1, "labelled": 1, "steps": 1}
    train(plan_run(tumours, {"method": "supervised", **settings}), tmp_path / "run")
    assert (tmp_path / "run/model.safetensors").is_file()


def test_srun_must_say_how_many_tasks_a_node_has(monkeypatch):
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    monkeypatch.delenv("SLURM_NTASKS_PER_NODE", raising=False)
    with pytest.raises(UserError, match="give srun --ntasks-per-node"):
        taking_part(None, None)


def test_a_batch_that_cannot_be_shared(segpl, tumours, tmp_path):
    done = segpl(
        "train", tumours, "--out", tmp_path / "run", "--devices", 3, "--labelled", 1, "--steps", 1
    )
    assert done.returncode == 2
    assert "batch is 4, which 3 processes cannot share: --set batch=3" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, (1, 1)),
        ({"TORCHELASTIC_RUN_ID": "x", "LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "8"}, (4, 2)),
        (
            {
                "SLURM_STEP_NUM_TASKS": "8",
                "SLURM_STEP_NUM_NODES": "2",
                "SLURM_NTASKS_PER_NODE": "4",
            },
            (4, 2),
        ),
        ({"SLURM_NTASKS": "8", "SLURM_NNODES": "2"}, (1, 1)),  # a job of eight, but no srun
    ],
)
def test_what_was_started_is_recognised(environment, found, monkeypatch):
    for name in ("TORCHELASTIC_RUN_ID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert taking_part(None, None) == Processes(*found)
    if found != (1, 1):
        with pytest.raises(UserError, match="does not fit what was started"):
            taking_part(3, None)


@pytest.mark.parametrize(
    ("name", "rank", "first"),
    [("RANK", "0", True), ("RANK", "3", False), ("LOCAL_RANK", "1", False)],
)
def test_one_process_speaks(name, rank, first, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "0")  # of the job's script, which all that it starts inherit
    monkeypatch.setenv(name, rank)
    assert is_first() is first
