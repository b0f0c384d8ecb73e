import json

import numpy as np
import pytest
import yaml
from made_up_runs import SHAPE, run_folder

from segpl.reporting.material import gather
from segpl.reporting.page.embedding import script_json
from segpl.reporting.page.pictures import confidence
from segpl.reporting.page.reproducibility import differing_settings, flatten_settings
from segpl.reporting.page.scans import largest_entropy
from segpl.reporting.page.training_curves import prior_moments, thresholds
from segpl.reporting.page.viewer import contact_sheet


def test_json_cannot_end_its_script_element():
    hostile = "</script><script>alert(1)</script><!-- & \u2028"
    text = script_json(hostile)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == hostile


def test_a_contact_sheet_holds_the_slices_row_by_row():
    rows, columns, slices = SHAPE
    assert slices == 5  # so three across and two down
    volume = np.arange(np.prod(SHAPE), dtype=np.uint8).reshape(SHAPE)
    sheet = contact_sheet(volume)
    assert sheet.shape == (2 * rows, 3 * columns)
    np.testing.assert_array_equal(sheet[rows:, columns : 2 * columns], volume[..., 4])
    assert not sheet[rows:, 2 * columns :].any()


def test_the_entropy_of_a_voxel_is_that_of_its_least_certain_region():
    per_cent = np.array([[0, 50, 100, 90], [0, 100, 25, 99]], np.uint8)
    assert largest_entropy(per_cent) == pytest.approx([0, 1, 0.811278, 0.468996], abs=1e-4)


def test_confidence_at_temperature_1_is_the_probability_of_the_likelier_answer():
    per_cent = np.array([50, 80, 20], np.uint8)
    assert confidence(per_cent, 1.0) == pytest.approx([0.5, 0.8, 0.8])


def test_temperature_2_takes_the_square_root_of_the_odds():
    per_cent = np.array([50, 80, 20], np.uint8)  # odds of 4 become odds of 2
    assert confidence(per_cent, 2.0) == pytest.approx([0.5, 2 / 3, 2 / 3])


CATEGORICAL = {"name": "categorical", "thresholds": [0.2, 0.4]}


@pytest.mark.parametrize(
    ("prior", "mean", "deviation"),
    [
        ({"name": "normal", "mean": 0.4, "deviation": 0.2}, 0.4, 0.2),
        ({"name": "beta", "a": 12, "b": 12}, 0.5, 0.1),
        (CATEGORICAL, 0.3, 0.1),
        (CATEGORICAL | {"weights": [3, 1]}, 0.25, 0.03**0.5 / 2),
        ({"name": "fixed", "threshold": 0.3}, 0.3, 0.0),
        ({"name": "uniform"}, 0.5, 0.288675),
    ],
)
def test_every_prior_has_a_mean_and_a_standard_deviation(prior, mean, deviation):
    assert prior_moments(prior) == pytest.approx((mean, deviation))


def test_an_unknown_prior_has_undefined_moments():
    assert np.isnan(prior_moments({})).all()


def test_the_prior_of_a_nested_method_is_found(tmp_path):
    run = run_folder(tmp_path / "run", tmp_path, cases=("a",))
    settings = yaml.safe_load((run / "run.yaml").read_text())
    member = settings["method"] | {"prior": {"name": "normal", "mean": 0.3, "deviation": 0.2}}
    settings["method"] = {"name": "ensemble", "base": {"base": member}}
    (run / "run.yaml").write_text(yaml.safe_dump(settings))
    numbers = thresholds(gather([run]))
    assert set(numbers["prior_mean"]) == {0.3}
    assert set(numbers["prior_deviation"]) == {0.2}


def test_settings_are_flattened_without_data_folder_and_reasons():
    settings = {
        "data": "/somewhere",
        "why": {"steps": "enough"},
        "steps": 20,
        "method": {"name": "segpl", "prior": {"mean": 0.5}},
    }
    flat = {"steps": "20", "method.name": "segpl", "method.prior.mean": "0.5"}
    assert dict(flatten_settings(settings)) == flat


def test_a_setting_that_one_run_lacks_differs():
    assert differing_settings([{"a": "1", "b": "2"}, {"a": "1"}]) == ["b"]
