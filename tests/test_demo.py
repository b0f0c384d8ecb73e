"""The demo: what it trains, prints and draws."""

from pathlib import Path

import pytest
from matplotlib.image import imread

import segpl.demo
from segpl.training.learner import Learner

PATCHES = {"tumour": [32, 32], "vessels": [16, 16, 8]}


def shorten(task, monkeypatch):
    """Few subjects, a small network and two steps."""
    settings = {"labelled": 1, "steps": 2, "ratio": 1, "channels": 4, "validate_every": 2}
    settings["patch"] = PATCHES[task]
    monkeypatch.setitem(segpl.demo.SETTINGS, task, settings)
    monkeypatch.setattr(segpl.demo, "SUBJECTS", 6)


def pictures(output):
    """The files that the demo says it has drawn."""
    lines = [line for line in output.splitlines() if line.startswith("picture: ")]
    return [Path(line.removeprefix("picture: ")) for line in lines]


@pytest.mark.parametrize("task", ["tumour", pytest.param("vessels", marks=pytest.mark.slow)])
def test_demo_ends_with_a_table_and_two_pictures_and_repeats_nothing(
    task, tmp_path, monkeypatch, capsys
):
    shorten(task, monkeypatch)
    segpl.demo.demo(task, tmp_path, every_method=True)
    output = capsys.readouterr().out
    for name in (*segpl.demo.METHODS, *segpl.demo.PAPERS_METHODS, "Foreground IoU", "Dice"):
        assert name in output
    masks, threshold = pictures(output)
    pixels = imread(masks)
    assert min(pixels.shape[:2]) > 200
    assert pixels.std() > 0.05
    assert "threshold T" in threshold.read_text(encoding="utf-8")
    monkeypatch.setattr(Learner, "training_step", None)  # a second call trains nothing
    segpl.demo.demo(task, tmp_path, every_method=True)
    assert capsys.readouterr().out == output


def test_the_demo_trains_two_methods_by_default(tmp_path, monkeypatch):
    trained = []

    class TrainedError(Exception):
        pass

    def record(data, method, settings, directory):
        trained.append(method)
        return directory

    def stop(runs):
        raise TrainedError

    monkeypatch.setattr(segpl.demo, "write_phantoms", lambda *_: None)
    monkeypatch.setattr(segpl.demo, "_trained", record)
    monkeypatch.setattr(segpl.demo, "_print_scores", stop)
    with pytest.raises(TrainedError):
        segpl.demo.demo("tumour", tmp_path)
    assert trained == ["supervised", "segpl-em"]
