"""Scores over images: the table of the paper, and two methods image by image."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from segpl.reporting.image_scores import image_agreement, over_images, per_image
from segpl.reporting.page.images import draw_image_differences
from segpl.reporting.study_numbers import Layout
from segpl.reporting.study_tables import write_image_table
from segpl.reporting.table import from_json

NAN = float("nan")
VALUES = {
    # By seed and region: the values of three images of one case. The third is always empty.
    "supervised": {(0, "x"): [0.2, 0.4, NAN], (0, "y"): [0.4, NAN, NAN], (1, "x"): [0.5, 0.6, NAN]},
    "segpl": {(0, "x"): [0.6, 0.4, NAN], (0, "y"): [0.8, 0.6, NAN], (1, "x"): [0.9, 0.7, NAN]},
}


@pytest.fixture
def images():
    rows = []
    for method, cells in VALUES.items():
        for (seed, region), values in cells.items():
            for image, value in enumerate(values):
                row = {"method": method, "budget": "2", "seed": seed, "region": region}
                row |= {"subject": "s", "case": "c", "image": image, "foreground": 0.1}
                row |= {"shift": "clean", "level": 0.0}
                rows.append(row | {"metric": "iou", "value": value})
                rows.append(row | {"metric": "mean_iou", "value": (1 + value) / 2})
    return pd.DataFrame(rows)


def test_an_image_is_averaged_over_regions_and_then_over_seeds(images):
    values = per_image(images).set_index(["method", "image"])["value"]
    # supervised, image 0: (0.2 + 0.4) / 2 = 0.3 with seed 0, and 0.5 with seed 1.
    assert values["supervised"].tolist() == pytest.approx([0.4, 0.5, NAN], nan_ok=True)
    assert values["segpl"].tolist() == pytest.approx([0.8, 0.6, NAN], nan_ok=True)


def test_mean_and_standard_deviation_are_over_images(images):
    numbers = over_images(images).set_index("method").loc["supervised"]
    assert numbers["iou_mean"] == pytest.approx(0.45)
    assert numbers["iou_std"] == pytest.approx(0.1 / 2**0.5)
    assert numbers["mean_iou_mean"] == pytest.approx(0.725)
    assert [numbers["images"], numbers["undefined"], numbers["seeds"]] == [2, 1, 2]


def test_two_methods_are_compared_on_the_images_of_both(images):
    found = image_agreement(per_image(images), "segpl", "supervised")
    assert found.agreement.differences == pytest.approx([0.4, 0.1])
    assert found.agreement.means == pytest.approx([0.6, 0.55])
    assert found.agreement.bias == pytest.approx(0.25)
    half_width = 1.96 * 0.3 / 2**0.5
    assert found.agreement.limits == pytest.approx((0.25 - half_width, 0.25 + half_width))
    assert found.mann_whitney == stats.mannwhitneyu([0.8, 0.6], [0.4, 0.5]).pvalue


def test_the_figure_shows_every_image_the_lines_and_the_test():
    numbers = pd.DataFrame(
        {
            "method": pd.Categorical(["segpl"] * 3, ["supervised", "segpl"]),
            "budget": pd.Categorical(["2"] * 3),
            "panel": "segpl",
            "baseline": "supervised",
            "mean": [50.0, 60, 70],
            "difference": [1.0, 2, 6],
            "bias": 3.0,
            "low": -2.19,
            "high": 8.19,
            "mann_whitney": 0.0123,
        }
    )
    figure = draw_image_differences(numbers)
    (axis,) = figure.axes
    (points,) = axis.collections
    np.testing.assert_array_equal(points.get_offsets(), [[50, 1], [60, 2], [70, 6]])
    heights = [line.get_ydata()[0] for line in axis.lines]
    assert heights == [0, 3.0, -2.19, 8.19]
    title = axis.get_title(loc="left")
    assert title == "segpl\nmean +3.0, limits -2.2 to 8.2, Mann-Whitney p = 0.012"


def test_a_study_writes_the_table_beside_the_figures_of_the_paper(images, tmp_path):
    layout = Layout(
        title="Study",
        methods=["supervised", "segpl"],
        budgets=["2"],
        seeds=[0, 1],
        baselines=["supervised"],
        failed={},
        paper="Table 1",
        paper_scores={"2": {"segpl": (69.44, 6.38)}},
    )
    scores = images[images["image"] == 0]  # one case, so that a score per case is at hand
    write_image_table(tmp_path, images, scores, layout)
    table = from_json((tmp_path / "images.table.json").read_text(encoding="utf-8"))
    titles = [column.title for column in table.columns]
    supervised, segpl = [dict(zip(titles, row, strict=True)) for row in table.rows()]
    assert segpl["IoU % per image"].mean == pytest.approx(0.7)
    assert segpl["IoU % per subject"].mean == pytest.approx(0.8)
    assert tuple(segpl["paper: IoU %"]) == (69.44, 6.38)
    assert supervised["paper: IoU %"] is None
    assert segpl["images"] == 2


def test_runs_without_a_table_of_images_have_no_table_and_no_figure(tmp_path):
    layout = Layout("Study", [], [], [], [], {})
    assert write_image_table(tmp_path, pd.DataFrame(), pd.DataFrame(), layout) == []
