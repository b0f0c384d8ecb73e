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


def test_the_page_in_docs_is_what_the_kept_scores_say(results, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "PAGE", tmp_path / "results.md")
    monkeypatch.setattr(sys, "argv", ["results.py"])
    results.main()
    written = (tmp_path / "results.md").read_text(encoding="utf-8")
    in_docs = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    assert written == in_docs, "make results"
    figures = {file.name for file in tmp_path.glob("*.png")}
    figures_in_docs = {file.name for file in (ROOT / "docs").glob("*.png")}
    of_other_pages = {"demo.png", "label-fusion.png", "viewer-1440.png", "viewer-390.png"}
    assert figures == figures_in_docs - of_other_pages


def test_effects_of_the_page_are_means_of_differences(results):
    """By hand from the kept scores: regions, then seeds, then subjects."""
    scores = results.read_table(ROOT / "studies/results/hippocampus/scores.csv")
    iou = scores[(scores["metric"] == "iou") & (scores["labelled"] == 4)]
    by_method = iou.groupby(["subject", "seed", "method"])["value"].mean().unstack()
    gains = by_method["segpl-em"] - by_method["supervised"]
    expected = 100 * gains.groupby("subject").mean().mean()
    effects = {}
    for verdict in results.verdicts(scores):
        comparison = verdict.comparison
        effects[comparison.method, comparison.labelled] = comparison.effect
    assert effects[results.OURS, 4] == pytest.approx(expected, abs=1e-6)
