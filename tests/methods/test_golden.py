import json

import golden
import pytest

from segpl.methods import METHODS


@pytest.mark.parametrize("name", METHODS)
def test_a_refactor_reproduces_the_loss_curve(name):
    recorded = json.loads((golden.FOLDER / f"{name}.json").read_text())
    assert golden.curve(METHODS[name]) == pytest.approx(recorded, rel=2e-3)
