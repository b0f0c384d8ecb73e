"""An error about a setting carries the way to it."""

import pytest

from segpl.foundation.errors import UserError
from segpl.settings.run import run_from

GOOD = {
    "data": "folder",
    "method": "segpl",
    "steps": 1,
    "learning_rate": 0.1,
    "ratio": 1,
    "patch": [16, 16],
    "channels": 4,
}


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"steps": 0}, ("steps",)),
        ({"stpes": 1}, ("stpes",)),
        ({"patch": [16, -1]}, ("patch", 1)),
        ({"patch": [16]}, ("patch",)),
        ({"mirror": [7]}, ("mirror",)),
        ({"method": "magic"}, ("method", "name")),
        ({"method": {"name": "segpl", "alpha": -1}}, ("method", "alpha")),
        (
            {"method": {"name": "segpl-vi", "prior": {"name": "normal", "mean": 2}}},
            ("method", "prior", "mean"),
        ),
        ({"method": {"name": "segpl-vi", "prior": {"mean": 0.4}}}, ("method", "prior")),
        (
            {"method": {"name": "deep-ensemble", "base": {"name": "cps", "alhpa": 1}}},
            ("method", "base", "alhpa"),
        ),
    ],
)
def test_a_wrong_setting(wrong, where):
    with pytest.raises(UserError) as error:
        run_from(GOOD | wrong, "the settings")
    assert error.value.where == where
    assert str(error.value).startswith("the settings: ")
