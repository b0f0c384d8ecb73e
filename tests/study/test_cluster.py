"""A study on a Ray cluster: machines may die, and the tables are those of this machine alone."""

import json
import socket
import sys
import time
from threading import Thread

import pytest

from segpl.foundation.errors import UserError
from segpl.study.cluster import LostError, Share, _places, _share, _wanted, on_machine
from segpl.study.running import run_study
from segpl.study.work import Evaluation, prepare


def test_without_ray_one_sentence_says_how_to_get_it(study_file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install '.\[cluster\]'"):
        run_study(study_file, tmp_path / "out", on="ray")
    assert not (tmp_path / "out").exists()


def test_a_cluster_that_does_not_answer_is_one_sentence(study_file, tmp_path, monkeypatch):
    def nobody(**_):
        raise ConnectionError("timed out")

    monkeypatch.setattr("ray.init", nobody)
    with pytest.raises(
        UserError, match=r"--on ray://host:1: no Ray cluster answers there \(timed out\)"
    ):
        run_study(study_file, tmp_path / "out", on="ray://host:1")


def test_a_run_gets_a_whole_machine_or_its_share():
    machines = [{"CPU": 8.0}, {"CPU": 4.0}]
    assert _share(machines, workers=None) == Share(4, 0)
    assert _places(machines, Share(4, 0)) == 3
    assert _share(machines, workers=6) == Share(2, 0)
    assert _share(machines, workers=100) == Share(1, 0)
    assert _share(machines, workers=1) == Share(4, 0), "no run can be larger than a machine"


def test_where_there_are_gpus_each_run_gets_one():
    machines = [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 8.0}]
    assert _share(machines, workers=4) == Share(4, 1)
    assert _places(machines, Share(4, 1)) == 2


def test_a_cluster_without_machines_is_an_error():
    with pytest.raises(UserError, match="no machine with a free core"):
        _share([], workers=1)


@pytest.fixture
def prepared(study_file, jobs_of, tmp_path):
    """A run directory on this machine, before anything was done."""
    job = jobs_of(study_file)[0]
    prepare(tmp_path / "here", job.run, Evaluation(["ood=0.1"], 1))
    return tmp_path / "here"


def test_a_machine_without_a_common_disk_gets_what_it_needs_and_returns_what_it_made(
    prepared, tmp_path, pretend
):
    there = tmp_path / "there"
    files = on_machine(str(there), _wanted(prepared), threads=1)
    assert set(_wanted(prepared)) == {"run.yaml", "evaluation.json"}
    assert {"scores.csv", "done.json", "cost.json", "run.yaml", "output.log"} <= set(files)
    assert files["scores.csv"] == (there / "scores.csv").read_bytes()


def test_a_trained_run_is_sent_along_when_only_its_scoring_changes(prepared, tmp_path, pretend):
    (prepared / "model.safetensors").write_bytes(b"weights")
    files = on_machine(str(tmp_path / "there"), _wanted(prepared), threads=1)
    assert files["model.safetensors"] == b"weights"


def test_a_failure_elsewhere_names_the_machine_and_a_death_is_tried_again(
    prepared, tmp_path, pretend
):
    pretend[0].write_text(json.dumps({"supervised 0": "fail"}))
    files = on_machine(str(tmp_path / "there"), _wanted(prepared), threads=1)
    assert files["failed.txt"].decode() == f"the scanner was on fire (on {socket.gethostname()})\n"
    pretend[0].write_text(json.dumps({"supervised 0": "die"}))
    with pytest.raises(LostError, match="was ended by SIGKILL"):
        on_machine(str(tmp_path / "there"), _wanted(prepared), threads=1)
    assert not (tmp_path / "there/failed.txt").exists()


@pytest.fixture
def cluster(monkeypatch):
    """Two machines of one core each, both on this one; a dead one is noticed within seconds."""
    from ray.cluster_utils import Cluster

    notice = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 500,
        "health_check_failure_threshold": 3,
    }
    machine = {"num_cpus": 1, "object_store_memory": 80_000_000}
    head = {**machine, "include_dashboard": False, "_system_config": notice}
    both = Cluster(initialize_head=True, head_node_args=head)
    monkeypatch.setenv("RAY_ADDRESS", both.address)
    yield both, both.add_node(**machine)
    both.shutdown()


@pytest.mark.slow
def test_a_machine_that_dies_in_the_middle_changes_nothing(undisturbed, tables, tmp_path, cluster):
    file, expected = undisturbed
    both, doomed = cluster

    def strike():
        while len(list(tmp_path.glob("out/runs/*/split.json"))) < 2:  # until both machines train
            time.sleep(0.05)
        both.remove_node(doomed, allow_graceful=False)

    striker = Thread(target=strike, daemon=True)
    striker.start()
    assert run_study(file, tmp_path / "out", on="ray") == 0
    striker.join()
    attempts = [
        len(json.loads(log.read_text(encoding="utf-8")))
        for log in tmp_path.glob("out/runs/*/provenance.json")
    ]
    assert sorted(attempts) == [1, 2], "one run began again on the machine that was left"
    assert tables(tmp_path / "out") == tables(expected)
