"""How fast segpl is on this machine, as ratios that hold on a noisy machine: `segpl benchmark`."""

import json
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from segpl.benchmark.batches import measure_batch_seconds, measure_growing_data
from segpl.benchmark.machine import PRODUCT_OPERATIONS, interleaved, matrix_product, time_help
from segpl.benchmark.prediction import measure_prediction
from segpl.benchmark.printing import print_measurements
from segpl.benchmark.steps import BRATS, CARVE, PLAIN, Configuration, measure_steps
from segpl.foundation.device import choose_device, device_name
from segpl.foundation.files import write_text
from segpl.methods import BASELINE, DEFAULT, METHODS
from segpl.methods.cps import CPS
from segpl.methods.segpl import SegPL
from segpl.methods.segpl_vi import SegPLVI

QUICK_METHODS = (BASELINE, SegPL.name())
COMPILED_METHODS = (*QUICK_METHODS, SegPLVI.name(), DEFAULT, CPS.name())
"""Timed compiled too: one network, one and its average, and two. Compiling takes 30 s for each."""
CASE_COUNTS = (10, 100, 1000, 10_000)
QUICK_CASE_COUNTS = CASE_COUNTS[:3]
SCAN_SHAPE = (512, 512, 400)
QUICK_SCAN_SHAPE = (256, 256, 40)
BRATS_SHAPE = (240, 240, 155)
CARVE_SHAPE = (512, 512, 100)
QUICK_SLICES = 20
PRODUCT_REPEATS = 20
BATCH_REPEATS = 30
GROWING_DATA_REPEATS = 50


def benchmark(out: Path, quick: bool, repeats: int) -> dict[str, Any]:
    """Measure everything in this process, print it, and return what is written to `out`."""
    measured = _describe_machine()

    def cases() -> list[dict[str, Any]]:
        counts = QUICK_CASE_COUNTS if quick else CASE_COUNTS
        return measure_growing_data(counts, BRATS, GROWING_DATA_REPEATS)

    def prediction() -> dict[str, Any]:
        shape = QUICK_SCAN_SHAPE if quick else SCAN_SHAPE
        return measure_prediction(CARVE, shape, repeats)

    measurements: dict[str, Callable[[], Any]] = {
        "help_seconds": lambda: time_help(repeats).median,
        # These two come before the steps, because the process keeps the memory that steps take.
        "cases": cases,
        "prediction": prediction,
        "steps": lambda: _measure_all_steps(quick, repeats),
        "waiting": lambda: _measure_waiting(quick, measured["steps"]),
    }
    for name, measure in measurements.items():
        measured[name] = measure()
        # Written each time, so that a user who stops the benchmark keeps what is measured.
        write_text(out, json.dumps(measured, indent=2) + "\n")
    print_measurements(measured)
    return measured


def _describe_machine() -> dict[str, Any]:
    """The machine, and how fast it multiplies matrices."""
    task = matrix_product(choose_device())
    product = interleaved({"product": task}, PRODUCT_REPEATS)["product"]
    machine = {
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    return {
        "machine": machine,
        "device": device_name(),
        "torch": torch.__version__,
        "product_flops_per_second": PRODUCT_OPERATIONS / product.median,
        "product_spread": product.spread,
    }


def _measure_all_steps(quick: bool, repeats: int) -> list[dict[str, Any]]:
    """Steps of both configurations. A quick benchmark skips the minutes of the compiler."""
    rows: list[dict[str, Any]] = []
    methods = QUICK_METHODS if quick else tuple(METHODS)
    for configuration in (BRATS, CARVE):
        rows += measure_steps(configuration, methods, repeats, compiled=False)
        if not quick:
            rows += measure_steps(configuration, COMPILED_METHODS, repeats, compiled=True)
    return rows


def _measure_waiting(quick: bool, steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The wait for a batch, from volumes as large as those of the paper's data sets.

    A quick benchmark takes fewer slices of them.
    """
    rows = []
    for configuration, (x, y, z) in ((BRATS, BRATS_SHAPE), (CARVE, CARVE_SHAPE)):
        shape = (x, y, QUICK_SLICES if quick else z)
        wait = measure_batch_seconds(configuration, shape, BATCH_REPEATS)
        step = _plain_step_seconds(steps, configuration)
        row = {
            "configuration": configuration.name,
            "seconds": wait,
            "share": wait / (wait + step),
        }
        rows.append(row)
    return rows


def _plain_step_seconds(steps: Sequence[dict[str, Any]], configuration: Configuration) -> float:
    """The time of a supervised step, the first one in the table."""
    for step in steps:
        if step["configuration"] == configuration.name and step["method"] == PLAIN:
            return step["seconds"]
    raise LookupError(f"no {PLAIN} step of {configuration.name} was measured")
