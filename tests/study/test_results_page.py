"""The page of results is what its command makes of the scores that are kept."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def results():
    """The program that writes the page."""
    spec = importlib.util.spec_from_file_location("results", ROOT / "studies/results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_kept_scores_say(results, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "PAGE", tmp_path / "results.md")
    monkeypatch.setattr(sys, "argv", ["results.py"])
    results.main()
    assert (tmp_path / "results.md").read_text(encoding="utf-8") == (
        ROOT / "docs/results.md"
    ).read_text(encoding="utf-8"), "make results"
    figures = {file.name for file in tmp_path.glob("*.png")}
    assert figures == {file.name for file in (ROOT / "docs").glob("*.png")} - {"demo.png"}


def test_effects_of_the_page_are_means_of_differences(results):
    """By hand from the kept scores: regions, then seeds, then subjects."""
    scores = results.read_table(ROOT / "studies/results/hippocampus/scores.csv")
    part = scores[(scores["metric"] == "iou") & (scores["labelled"] == 4)]
    each = part.groupby(["subject", "seed", "method"])["value"].mean().unstack()
    expected = 100 * (each["segpl-em"] - each["supervised"]).groupby("subject").mean().mean()
    (ours,) = (
        one.comparison
        for one in results.verdicts(scores)
        if (one.comparison.method, one.comparison.labelled) == (results.OURS, 4)
    )
    assert ours.effect == pytest.approx(expected, abs=1e-6)
