"""Errors about the settings of a run."""

import pytest

from segpl.foundation.errors import UserError
from segpl.settings.run import run_from

VALID = {
    "data": "folder",
    "method": "segpl",
    "steps": 1,
    "learning_rate": 0.1,
    "ratio": 1,
    "patch": [16, 16],
    "channels": 4,
}
WRONG_PRIOR = {"name": "segpl-vi", "prior": {"name": "normal", "mean": 2}}
UNNAMED_PRIOR = {"name": "segpl-vi", "prior": {"mean": 0.4}}
WRONG_BASE = {"name": "deep-ensemble", "base": {"name": "cps", "alhpa": 1}}


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"steps": 0}, ("steps",)),
        ({"stpes": 1}, ("stpes",)),
        ({"patch": [16, -1]}, ("patch", 1)),
        ({"patch": [16]}, ("patch",)),
        ({"mirror": [7]}, ("mirror",)),
        ({"crops": 2, "slices": 2}, ("crops",)),
        ({"centre_crop": [176]}, ("centre_crop",)),
        ({"unlabelled": 0}, ("unlabelled",)),
        ({"grade": "high"}, ("grade",)),
        ({"method": "magic"}, ("method", "name")),
        ({"method": {"name": "segpl", "alpha": -1}}, ("method", "alpha")),
        ({"method": WRONG_PRIOR}, ("method", "prior", "mean")),
        ({"method": UNNAMED_PRIOR}, ("method", "prior")),
        ({"method": WRONG_BASE}, ("method", "base", "alhpa")),
    ],
)
def test_an_error_names_the_source_and_the_path_to_the_setting(wrong, where):
    with pytest.raises(UserError) as error:
        run_from(VALID | wrong, "the settings")
    assert error.value.where == where
    assert str(error.value).startswith("the settings: ")
