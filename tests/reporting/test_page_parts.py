import json

import numpy as np
import pandas as pd
import pytest
import yaml
from made_up_runs import SHAPE, data_folder, run_folder

from segpl.reporting.material import gather
from segpl.reporting.page.embedding import script_json
from segpl.reporting.page.pictures import draw_temperatures, scaled_probability
from segpl.reporting.page.reproducibility import differing_settings, flatten_settings
from segpl.reporting.page.scans import find_cases, largest_entropy, read_scan
from segpl.reporting.page.training_curves import (
    draw_threshold_inference,
    draw_thresholds,
    prior_moments,
    threshold_inference,
    thresholds,
)
from segpl.reporting.page.viewer import contact_sheet
from segpl.rundir import LEVELS_FILE, read_slice_levels, scoring_files


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


LEVELS = np.array([13107, 52428, 65469, 65535], np.uint16)
"""Probabilities of 0.2, 0.8, 0.999 (odds of 992) and 1."""


def test_temperature_1_leaves_probabilities_as_they_are():
    assert scaled_probability(LEVELS, 1.0) == pytest.approx([0.2, 0.8, 0.999, 1.0], abs=1e-5)


def test_temperature_2_takes_the_square_root_of_the_odds():
    # The odds of the last level are those of half a step from 1: 131069.
    odds = np.array([0.5, 2, (65469 / 66) ** 0.5, 131069**0.5])
    assert scaled_probability(LEVELS, 2.0) == pytest.approx(odds / (1 + odds))


def test_temperature_15_still_tells_confident_voxels_apart():
    p = scaled_probability(LEVELS, 15.0)
    assert p == pytest.approx([0.4769, 0.5231, 0.6130, 0.6869], abs=1e-4)


def test_the_figure_of_temperatures_plots_the_stored_levels_with_a_colour_bar(tmp_path):
    data = data_folder(tmp_path / "data", cases=("a",))
    run = run_folder(tmp_path / "run", data, cases=("a",))
    material = gather([run])
    cases, _ = find_cases(material, ["a"])
    scan = read_scan(material, cases["a"])
    figure = draw_temperatures([scan])
    _, *maps, colour_bar = figure.axes
    stored = read_slice_levels(scoring_files(run).measured / "a" / LEVELS_FILE)
    p = stored.levels[..., 0].T / 65535
    if scan.upwards:
        p = p[::-1]
    logit = np.log(p / (1 - p))
    for axis, temperature in zip(maps, (0.1, 1, 15), strict=True):
        (shown,) = axis.images
        expected = 1 / (1 + np.exp(-logit / temperature))
        np.testing.assert_allclose(shown.get_array(), expected, atol=1e-9)
        assert shown.get_clim() == (0, 1)
    assert colour_bar.get_ylabel() == "probability"


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


PRIOR = {"name": "normal", "mean": 0.3, "deviation": 0.2}


def inferring_run(folder, seed, bounds):
    """A run with this prior whose log holds two steps."""
    run = run_folder(folder / f"run-{seed}", folder, seed=seed, cases=("a",))
    settings = yaml.safe_load((run / "run.yaml").read_text())
    settings["method"]["prior"] = PRIOR
    (run / "run.yaml").write_text(yaml.safe_dump(settings))
    log = pd.DataFrame(
        {
            "step": [1, 2],
            "threshold": [0.3, 0.3],
            "threshold_spread": [0.1, 0.1],
            "posterior_mean": [0.3, 0.4],
            "posterior_deviation": [0.2, 0.1],
            "bound": bounds,
        }
    )
    log.to_csv(run / "log.csv", index=False)
    return run


def test_inference_shows_prior_posterior_and_the_bound_with_its_range_over_seeds(tmp_path):
    inferring_run(tmp_path, seed=0, bounds=[-0.9, -0.4])
    inferring_run(tmp_path, seed=1, bounds=[-0.7, -0.5])
    numbers = threshold_inference(gather([tmp_path]))
    assert list(numbers["step"]) == [1, 2]
    assert list(numbers["prior_mean"]) == [0.3, 0.3]
    assert list(numbers["prior_deviation"]) == [0.2, 0.2]
    assert numbers["posterior_mean"].tolist() == pytest.approx([0.3, 0.4])
    assert numbers["posterior_deviation"].tolist() == pytest.approx([0.2, 0.1])
    assert numbers["bound"].tolist() == pytest.approx([-0.8, -0.45])
    assert numbers["bound_low"].tolist() == pytest.approx([-0.9, -0.5])
    assert numbers["bound_high"].tolist() == pytest.approx([-0.7, -0.4])


def test_the_figure_of_inference_plots_these_numbers(tmp_path):
    inferring_run(tmp_path, seed=0, bounds=[-0.9, -0.4])
    material = gather([tmp_path])
    numbers = threshold_inference(material)
    methods = pd.Categorical(numbers["method"], material.methods)
    figure = draw_threshold_inference(numbers.assign(method=methods))
    above, below = figure.axes
    prior, posterior = above.lines
    (bound,) = below.lines
    assert posterior.get_ydata() == pytest.approx([0.3, 0.4])
    assert prior.get_ydata() == pytest.approx([0.3, 0.3])
    assert bound.get_ydata() == pytest.approx([-0.9, -0.4])
    band_of_posterior = above.collections[1].get_datalim(above.transData)
    assert (band_of_posterior.y0, band_of_posterior.y1) == pytest.approx((0.1, 0.5))


@pytest.mark.parametrize("draw", [draw_thresholds, draw_threshold_inference])
def test_a_prior_that_methods_share_hides_no_posterior(draw, tmp_path):
    """Drawn once for each method, its band would be opaque."""
    numbers = []
    for seed, method in enumerate(("first", "second", "third")):
        run = inferring_run(tmp_path / method, seed=seed, bounds=[-0.9, -0.4])
        numbers.append(threshold_inference(gather([run])).assign(method=method))
    together = pd.concat(numbers)
    figure = draw(together.assign(method=pd.Categorical(together["method"])))
    for axis in figure.axes:
        priors = [line for line in axis.lines if line.get_label().startswith("prior")]
        assert len(priors) <= 1


def test_a_run_without_a_bound_has_no_figure_of_inference(tmp_path):
    inferring_run(tmp_path, seed=0, bounds=[np.nan, np.nan])
    assert threshold_inference(gather([tmp_path])).empty


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
