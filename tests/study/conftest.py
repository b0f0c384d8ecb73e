"""A small study, and workers that write the files of a run without training anything."""

import json
import sys
from pathlib import Path

import pytest

from segpl.study import local
from segpl.study.jobs import expand
from segpl.study.running import run_study
from segpl.study.study_file import read_study

SMALL = """\
title: Small
data: {data}
settings: {{steps: 4, validate_every: 2, ratio: 1, channels: 4, patch: [32, 32]}}
methods:
  - supervised
  - {{name: segpl, alpha: 0.1}}
budgets: [1]
seeds: [0, 1]
shifts:
  - ood=0.1
"""


@pytest.fixture
def study_file(tmp_path, tumours):
    """Two methods with two seeds on tumour phantoms."""
    file = tmp_path / "study.yaml"
    file.write_text(SMALL.format(data=tumours))
    return file


@pytest.fixture
def jobs_of(tmp_path):
    """A function that returns the runs of a study file."""

    def jobs_of_file(file, data=None):
        study, source = read_study(file, data)
        return expand(study, source, tmp_path / "out")

    return jobs_of_file


class PretendWorkers:
    """Controls the workers of pretend.py and knows what they did."""

    def __init__(self, folder):
        self.plan_file = folder / "plan.json"
        self.worked_file = folder / "worked"
        self.plan({})
        self.forget()

    def plan(self, fates):
        """Let runs `fail` or `die`, by method and seed: {"segpl 1": "die"}."""
        self.plan_file.write_text(json.dumps(fates))

    def worked(self):
        """The names of the run directories that were worked on."""
        return self.worked_file.read_text(encoding="utf-8").splitlines()

    def forget(self):
        """Clear the list of `worked`."""
        self.worked_file.write_text("")


@pytest.fixture
def pretend(monkeypatch, tmp_path):
    """Let a study start pretend workers instead of real ones."""
    workers = PretendWorkers(tmp_path)
    program = Path(__file__).with_name("pretend.py")
    command = [sys.executable, str(program), str(workers.plan_file), str(workers.worked_file)]
    monkeypatch.setattr(local, "COMMAND", command)
    return workers


@pytest.fixture(scope="session")
def undisturbed(tumours, tmp_path_factory):
    """The file and the output folder of a study of two real runs that nothing interrupted."""
    folder = tmp_path_factory.mktemp("undisturbed")
    file = folder / "study.yaml"
    text = SMALL.format(data=tumours)
    text = text.replace("seeds: [0, 1]", "seeds: [0]")
    text = text.replace("steps: 4", "steps: 100")
    text = text.replace("validate_every: 2", "validate_every: 10")
    file.write_text(text)
    assert run_study(file, folder / "out", workers=2) == 0
    return file, folder / "out"
