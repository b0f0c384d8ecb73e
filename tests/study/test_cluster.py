"""A study on a Ray cluster: machines may die, and the tables are those of this machine alone."""

import json
import socket
import sys
import time
from threading import Thread

import pytest
import safetensors.torch
import torch
from study_files import read_tables

from segpl.foundation.errors import UserError
from segpl.study.cluster import (
    LostError,
    Share,
    _capacity,
    _files_to_send,
    _share,
    work_on_machine,
)
from segpl.study.running import run_study
from segpl.study.single_run import Evaluation, prepare


def test_without_ray_the_error_says_how_to_install_it(study_file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install '.\[cluster\]'"):
        run_study(study_file, tmp_path / "out", on="ray")
    assert not (tmp_path / "out").exists()


def test_a_cluster_that_does_not_answer_is_a_user_error(study_file, tmp_path, monkeypatch):
    def time_out(**_):
        raise ConnectionError("timed out")

    monkeypatch.setattr("ray.init", time_out)
    message = r"--on ray://host:1: no Ray cluster answers there \(timed out\): start one, or"
    with pytest.raises(UserError, match=message):
        run_study(study_file, tmp_path / "out", on="ray://host:1")


def test_by_default_a_run_gets_as_many_cores_as_the_smallest_machine():
    machines = [{"CPU": 8.0}, {"CPU": 4.0}]
    assert _share(machines, workers=None) == Share(4, 0)
    assert _capacity(machines, Share(4, 0)) == 3


def test_workers_share_the_cores():
    machines = [{"CPU": 8.0}, {"CPU": 4.0}]
    assert _share(machines, workers=6) == Share(2, 0)
    assert _share(machines, workers=100) == Share(1, 0)
    assert _share(machines, workers=1) == Share(4, 0), "no run can be larger than a machine"


def test_where_there_are_gpus_each_run_gets_one():
    machines = [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 8.0}]
    assert _share(machines, workers=4) == Share(4, 1)
    assert _capacity(machines, Share(4, 1)) == 2


def test_a_cluster_without_machines_is_an_error():
    with pytest.raises(UserError, match="no machine with a free core"):
        _share([], workers=1)


@pytest.fixture
def prepared(study_file, jobs_of, tmp_path):
    """A prepared run directory on this machine."""
    job = jobs_of(study_file)[0]
    prepare(tmp_path / "here", job.run, Evaluation(["ood=0.1"], 1))
    return tmp_path / "here"


def test_a_machine_gets_the_instructions_and_returns_what_it_made(prepared, tmp_path, pretend):
    there = tmp_path / "there"
    sent = _files_to_send(prepared)
    assert set(sent) == {"run.yaml", "evaluation.json"}
    returned = work_on_machine(str(there), sent, threads=1)
    assert {"scores.csv", "done.json", "cost.json", "run.yaml", "output.log"} <= set(returned)
    assert returned["scores.csv"] == (there / "scores.csv").read_bytes()


def test_the_weights_of_a_trained_run_are_sent_too(prepared, tmp_path, pretend):
    weights = safetensors.torch.save({"weight": torch.zeros(2)})
    (prepared / "model.safetensors").write_bytes(weights)
    returned = work_on_machine(str(tmp_path / "there"), _files_to_send(prepared), threads=1)
    assert returned["model.safetensors"] == weights


def test_a_failure_on_the_cluster_names_the_machine(prepared, tmp_path, pretend):
    pretend.plan({"supervised 0": "fail"})
    returned = work_on_machine(str(tmp_path / "there"), _files_to_send(prepared), threads=1)
    reason = returned["failed.txt"].decode()
    assert reason == f"the scanner was on fire (on {socket.gethostname()})\n"


def test_a_process_that_dies_is_lost_so_that_ray_tries_again(prepared, tmp_path, pretend):
    pretend.plan({"supervised 0": "die"})
    with pytest.raises(LostError, match="was ended by SIGKILL"):
        work_on_machine(str(tmp_path / "there"), _files_to_send(prepared), threads=1)
    assert not (tmp_path / "there/failed.txt").exists()


@pytest.fixture
def cluster(monkeypatch):
    """Two machines of one core each, both on this one; a dead one is noticed within seconds."""
    from ray.cluster_utils import Cluster

    health_checks = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 500,
        "health_check_failure_threshold": 3,
    }
    machine = {"num_cpus": 1, "object_store_memory": 80_000_000}
    head = {**machine, "include_dashboard": False, "_system_config": health_checks}
    machines = Cluster(initialize_head=True, head_node_args=head)
    monkeypatch.setenv("RAY_ADDRESS", machines.address)
    yield machines, machines.add_node(**machine)
    machines.shutdown()


@pytest.mark.slow
def test_a_machine_that_dies_in_the_middle_changes_nothing(undisturbed, tmp_path, cluster):
    file, expected = undisturbed
    machines, doomed = cluster
    out = tmp_path / "out"

    def kill_a_machine():
        while len(list(out.glob("runs/*/split.json"))) < 2:  # until both machines train
            time.sleep(0.05)
        machines.remove_node(doomed, allow_graceful=False)

    killer = Thread(target=kill_a_machine, daemon=True)
    killer.start()
    assert run_study(file, out, on="ray") == 0
    killer.join()
    attempts = []
    for provenance in out.glob("runs/*/provenance.json"):
        entries = json.loads(provenance.read_text(encoding="utf-8"))
        attempts.append(len(entries))
    assert sorted(attempts) == [1, 2], "one run began again on the machine that was left"
    assert read_tables(out) == read_tables(expected)
