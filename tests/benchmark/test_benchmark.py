"""The benchmark on networks so small that only its arithmetic is tested, not the machine."""

import json
import time

import pytest
import torch

import segpl.benchmark
from segpl.benchmark import benchmark
from segpl.benchmark.machine import Timing, interleaved, peak_memory
from segpl.benchmark.steps import REFERENCE, Configuration, measure_steps

SMALL_2D = Configuration("BRATS, 2D", 2, 2, 4, (16, 16), 2, 4)
SMALL_3D = Configuration("CARVE, 3D", 1, 1, 4, (16, 16, 3), 2, 2)


def test_tasks_take_turns():
    order = []
    tasks = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    timings = interleaved(tasks, repeats=3)
    assert "".join(order) == "ababab"
    assert len(timings["a"].seconds) == 3


def test_a_timing_has_a_median_and_a_spread():
    timing = Timing([4.0, 1.0, 2.0])
    assert timing.median == 2.0
    assert timing.spread == 1.5


def test_peak_memory_is_that_of_the_computation_alone():
    def peak_of_holding(megabytes):
        def hold():
            values = torch.ones(megabytes, 250_000)
            time.sleep(0.1)
            return values

        return peak_memory(hold)

    small = peak_of_holding(1)
    large = peak_of_holding(300)
    small_again = peak_of_holding(1)
    assert 200e6 < large - small < 400e6
    assert small_again < large - 200e6, "the computation before does not count"


@pytest.fixture(scope="module")
def rows():
    """Measurements of MONAI's network and two methods, by method."""
    measured = measure_steps(SMALL_3D, ["supervised", "cps"], repeats=3, compiled=False)
    return {row["method"]: row for row in measured}


def test_there_is_a_row_for_monais_network_and_for_each_method(rows):
    assert list(rows) == [REFERENCE, "supervised", "cps"]


def test_cps_needs_twice_the_operations_because_two_networks_see_every_image(rows):
    assert rows["cps"]["flops"] == pytest.approx(2 * rows["supervised"]["flops"], rel=0.01)


def test_ratios_are_relative_to_monais_network_and_to_supervised(rows):
    reference = rows[REFERENCE]
    supervised = rows["supervised"]
    assert reference["speed_up"] == 1
    assert supervised["ratio_to_supervised"] == 1
    assert supervised["speed_up"] == pytest.approx(reference["seconds"] / supervised["seconds"])


def test_the_rate_is_operations_by_seconds(rows):
    row = rows["supervised"]
    assert row["flops_per_second"] == pytest.approx(row["flops"] / row["seconds"])


@pytest.mark.slow
def test_everything_is_measured_printed_and_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(segpl.benchmark, "BRATS", SMALL_2D)
    monkeypatch.setattr(segpl.benchmark, "CARVE", SMALL_3D)
    benchmark(tmp_path / "measured.json", quick=True, repeats=2)
    measured = json.loads((tmp_path / "measured.json").read_text(encoding="utf-8"))
    steps = {(row["configuration"], row["method"]) for row in measured["steps"]}
    assert ("BRATS, 2D", "segpl") in steps
    assert ("CARVE, 3D", REFERENCE) in steps
    assert [row["cases"] for row in measured["cases"]] == [10, 100, 1000]
    for row in measured["waiting"]:
        assert 0 < row["share"] < 1
    assert 0 < measured["prediction"]["share_in_network"] < 1
    printed = capsys.readouterr().out
    assert "segpl --help" in printed
    assert "million voxels/s" in printed
