"""A refactoring must not change what is learnt."""

import json

import golden
import pytest

from segpl.methods import METHODS


@pytest.mark.parametrize("name", METHODS)
def test_the_loss_curve_is_the_recorded_one(name):
    recorded = json.loads((golden.FOLDER / f"{name}.json").read_text())
    assert golden.curve(METHODS[name]) == pytest.approx(recorded, rel=2e-3)
