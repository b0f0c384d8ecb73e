"""Which runs form a curve of an ablated setting, and what the figure plots."""

import pytest
import yaml
from made_up_runs import run_folder

from segpl.reporting.material import gather
from segpl.reporting.page.ablations import ablations, draw_ablations


def make_run(folder, seed=0, method="segpl", alpha=0.05, **changes):
    run = run_folder(folder, folder, method, seed, cases=("a", "b"))
    settings = yaml.safe_load((run / "run.yaml").read_text()) | {"learning_rate": 0.03} | changes
    settings["method"]["alpha"] = alpha
    (run / "run.yaml").write_text(yaml.safe_dump(settings))


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """Two values of alpha and of the learning rate, two seeds, and runs that differ in both."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        make_run(folder / f"first-{seed}", seed)
        make_run(folder / f"alpha-{seed}", seed, alpha=0.5)
        make_run(folder / f"rate-{seed}", seed, learning_rate=0.1)
        make_run(folder / f"both-{seed}", seed, alpha=0.9, learning_rate=0.7)
    make_run(folder / "supervised", method="supervised")
    return gather([folder])


def mean_iou(material, run):
    scores = material.clean
    rows = scores[(scores["run"] == run) & (scores["metric"] == "iou")]
    return 100 * rows.groupby("case")["value"].mean().mean()


def test_runs_that_differ_in_one_setting_form_a_curve(material):
    numbers = ablations(material)
    values = numbers.groupby("setting")["value"].apply(list).to_dict()
    assert values == {"learning_rate": [0.03, 0.1], "method.alpha": [0.05, 0.5]}
    assert set(numbers["curve"]) == {"segpl"}
    assert set(numbers["seeds"]) == {2}


def test_a_point_is_the_mean_over_seeds_with_their_range(material):
    numbers = ablations(material).set_index(["setting", "value"])
    seeds = sorted([mean_iou(material, "alpha-0"), mean_iou(material, "alpha-1")])
    point = numbers.loc[("method.alpha", 0.5)]
    assert point["mean"] == pytest.approx(sum(seeds) / 2)
    assert [point["min"], point["max"]] == pytest.approx(seeds)


def test_every_setting_has_a_panel_with_its_points(material):
    numbers = ablations(material)
    figure = draw_ablations(numbers)
    assert [axis.get_xlabel() for axis in figure.axes] == ["learning rate", "alpha"]
    for axis, (_, rows) in zip(figure.axes, numbers.groupby("setting", sort=False), strict=True):
        (line,) = axis.lines
        assert list(line.get_xdata()) == list(rows["value"])
        assert list(line.get_ydata()) == list(rows["mean"])


def test_curves_of_one_method_are_named_by_what_tells_them_apart(tmp_path):
    for alpha in (0.05, 0.5):
        for rate in (0.01, 0.1):
            make_run(tmp_path / f"{alpha}-{rate}", alpha=alpha, learning_rate=rate)
    numbers = ablations(gather([tmp_path]))
    names = numbers.groupby("setting")["curve"].unique().apply(list).to_dict()
    assert names == {
        "learning_rate": ["segpl, alpha 0.05", "segpl, alpha 0.5"],
        "method.alpha": ["segpl, learning rate 0.01", "segpl, learning rate 0.1"],
    }


def test_values_of_different_magnitude_have_a_logarithmic_axis(tmp_path):
    for alpha in (0.0, 0.01, 0.1):
        make_run(tmp_path / str(alpha), alpha=alpha)
    (axis,) = draw_ablations(ablations(gather([tmp_path]))).axes
    assert axis.get_xscale() == "symlog"
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0", "0.01", "0.1"]


def test_runs_that_differ_in_the_seed_only_form_no_curve(tmp_path):
    for seed in (0, 1):
        make_run(tmp_path / str(seed), seed)
    assert ablations(gather([tmp_path])).empty
