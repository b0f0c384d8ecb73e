from pathlib import Path

import pytest
from matplotlib.image import imread

import segpl.demo
from segpl.training.loop import Learner


@pytest.mark.parametrize("task", ["tumour", pytest.param("vessels", marks=pytest.mark.slow)])
def test_demo_ends_with_a_table_and_two_pictures_and_does_nothing_twice(
    task, tmp_path, monkeypatch, capsys
):
    small = {"labelled": 1, "steps": 2, "ratio": 1, "channels": 4, "validate_every": 2}
    small |= {"patch": [32, 32] if task == "tumour" else [16, 16, 8]}
    monkeypatch.setitem(segpl.demo.SETTINGS, task, small)
    write = segpl.demo.write_phantoms
    monkeypatch.setattr(
        segpl.demo, "write_phantoms", lambda task, folder, subjects: write(task, folder, 6)
    )
    segpl.demo.demo(task, tmp_path, every_method=True)
    first = capsys.readouterr().out
    assert all(
        name in first
        for name in (*segpl.demo.METHODS, *segpl.demo.PAPERS_METHODS, "Foreground IoU", "Dice")
    )
    masks, threshold = (
        Path(line.removeprefix("picture: ")) for line in first.splitlines() if "picture: " in line
    )
    pixels = imread(masks)
    assert min(pixels.shape[:2]) > 200
    assert pixels.std() > 0.05
    assert "threshold T" in threshold.read_text(encoding="utf-8")
    monkeypatch.setattr(Learner, "training_step", None)  # a second call trains nothing
    segpl.demo.demo(task, tmp_path, every_method=True)
    assert capsys.readouterr().out == first


def test_the_demo_trains_two_methods_unless_all_are_asked_for(tmp_path, monkeypatch):
    trained = []

    class EnoughError(Exception):
        pass

    def enough(*_):
        raise EnoughError

    monkeypatch.setattr(segpl.demo, "write_phantoms", lambda *_: None)
    monkeypatch.setattr(
        segpl.demo, "_trained", lambda data, method, *_: trained.append(method) or tmp_path
    )
    monkeypatch.setattr(segpl.demo, "read_scores", enough)
    with pytest.raises(EnoughError):
        segpl.demo.demo("tumour", tmp_path)
    assert trained == ["supervised", "segpl-em"]
