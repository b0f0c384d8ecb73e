"""A small study, and a worker that pretends: it leaves the files of a run behind without training anything."""

import sys
from pathlib import Path

import pytest

from segpl.study import pool
from segpl.study.jobs import expand
from segpl.study.reading import read_study
from segpl.study.running import run_study

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
    """The runs of a study file."""
    return lambda file, data=None: expand(*read_study(file, data), tmp_path / "out")


@pytest.fixture
def pretend(monkeypatch, tmp_path):
    """Workers that pretend; what each does stands in `plan`, by method, and who worked in `worked`."""
    plan, worked = tmp_path / "plan.json", tmp_path / "worked"
    plan.write_text("{}")
    worked.touch()
    worker = Path(__file__).with_name("pretend.py")
    monkeypatch.setattr(pool, "COMMAND", [sys.executable, str(worker), str(plan), str(worked)])
    return plan, worked


@pytest.fixture(scope="session")
def undisturbed(tumours, tmp_path_factory):
    """A study of two real runs of one thread each, and its output folder when nothing happens to it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    file = folder / "study.yaml"
    text = (
        SMALL.format(data=tumours)
        .replace("seeds: [0, 1]", "seeds: [0]")
        .replace("steps: 4", "steps: 100")
    )
    file.write_text(text.replace("validate_every: 2", "validate_every: 10"))
    assert run_study(file, folder / "out", workers=2) == 0
    return file, folder / "out"


@pytest.fixture(scope="session")
def tables():
    """All tables of a study but the times, byte for byte."""
    return lambda out: {file.name: file.read_bytes() for file in (out / "tables").iterdir()}
