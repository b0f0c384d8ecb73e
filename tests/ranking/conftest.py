"""A run of a few steps on the tumour phantoms."""

import pytest

from segpl.settings.planning import plan_run
from segpl.training.loop import train


@pytest.fixture(scope="session")
def run_directory(tumours, tmp_path_factory):
    settings = {
        "method": "segpl-vi",
        "patch": [64, 64],
        "channels": 4,
        "ratio": 1,
        "steps": 4,
        "labelled": 1,
    }
    return train(plan_run(tumours, settings), tmp_path_factory.mktemp("runs") / "run")
