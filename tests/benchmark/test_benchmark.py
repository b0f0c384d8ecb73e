"""The benchmark on networks so small that only its arithmetic is tested, not the machine."""

import json
import time

import pytest
import torch

import segpl.benchmark
from segpl.benchmark import benchmark
from segpl.benchmark.machine import Timing, interleaved, peak_memory
from segpl.benchmark.steps import Configuration, measure_steps

FLAT = Configuration("BRATS, 2D", 2, 2, 4, (16, 16), 2, 4)
DEEP = Configuration("CARVE, 3D", 1, 1, 4, (16, 16, 3), 2, 2)


def test_tasks_take_turns():
    order = []
    timings = interleaved(
        {"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repeats=3
    )
    assert "".join(order) == "ababab"
    assert len(timings["a"].seconds) == 3


def test_a_timing_is_a_median_and_how_far_the_others_lie_apart():
    timing = Timing([4.0, 1.0, 2.0])
    assert (timing.median, timing.spread) == (2.0, 1.5)


def test_peak_memory_is_that_of_the_computation_alone():
    def hold(megabytes):
        kept = torch.ones(megabytes, 250_000)
        time.sleep(0.1)
        return kept

    small, large, again = (peak_memory(lambda size=size: hold(size)) for size in (1, 300, 1))
    assert 200e6 < large - small < 400e6
    assert again < large - 200e6, "it does not remember the computation before"


def test_a_row_says_what_a_step_costs_beside_monais_network():
    rows = {
        row["method"]: row
        for row in measure_steps(DEEP, ["supervised", "cps"], repeats=3, compiled=False)
    }
    assert list(rows) == ["MONAI's network", "supervised", "cps"]
    plain, both = rows["supervised"], rows["cps"]
    assert plain["ratio_to_supervised"] == 1
    assert both["flops"] == pytest.approx(2 * plain["flops"], rel=0.01), (
        "two networks see every image"
    )
    assert rows["MONAI's network"]["speed_up"] == 1
    assert plain["speed_up"] == pytest.approx(rows["MONAI's network"]["seconds"] / plain["seconds"])
    assert plain["flops_per_second"] == pytest.approx(plain["flops"] / plain["seconds"])


@pytest.mark.slow
def test_everything_is_measured_printed_and_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(segpl.benchmark, "BRATS", FLAT)
    monkeypatch.setattr(segpl.benchmark, "CARVE", DEEP)
    benchmark(tmp_path / "found.json", quick=True, repeats=2)
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert {(row["configuration"], row["method"]) for row in found["steps"]} >= {
        ("BRATS, 2D", "segpl"),
        ("CARVE, 3D", "MONAI's network"),
    }
    assert [row["cases"] for row in found["cases"]] == [10, 100, 1000]
    assert all(0 < row["share"] < 1 for row in found["waiting"])
    assert 0 < found["prediction"]["share_in_network"] < 1
    printed = capsys.readouterr().out
    assert "segpl --help" in printed
    assert "million voxels/s" in printed
