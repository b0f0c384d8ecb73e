"""How fast it is here, as ratios that hold on a noisy machine: `segpl benchmark`."""

import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from segpl.benchmark.machine import PRODUCT, interleaved, product, start_up
from segpl.benchmark.predicting import measure_prediction
from segpl.benchmark.road import measure_road, measure_waiting
from segpl.benchmark.steps import BRATS, CARVE, PLAIN, measure_steps
from segpl.foundation.device import choose_device, device_name
from segpl.foundation.files import write_text
from segpl.methods import BASELINE, DEFAULT, METHODS
from segpl.methods.cps import CPS
from segpl.methods.segpl import SegPL
from segpl.methods.segpl_vi import SegPLVI

QUICK = (BASELINE, SegPL.name())
COMPILED = (*QUICK, SegPLVI.name(), DEFAULT, CPS.name())
"""Methods that are compiled too: one network, one and its average, and two. It takes half a minute for each."""


def benchmark(out: Path, quick: bool, repeats: int) -> dict[str, Any]:
    """Measure everything in this one process, print the tables, and keep the numbers in `out`."""
    device = choose_device()
    mark = interleaved({"product": product(device)}, 20)["product"]
    found: dict[str, Any] = {
        "machine": {
            "system": platform.platform(),
            "processors": os.cpu_count(),
            "threads": torch.get_num_threads(),
        },
        "device": device_name(),
        "torch": torch.__version__,
        "product_flops_per_second": PRODUCT / mark.median,
        "product_spread": mark.spread,
    }
    parts: dict[str, Callable[[], Any]] = {
        "help_seconds": lambda: start_up(repeats).median,
        # Before the steps, whose memory the process keeps and would be counted in.
        "cases": lambda: measure_road(
            (10, 100, 1000) if quick else (10, 100, 1000, 10_000), BRATS, 50
        ),
        "prediction": lambda: measure_prediction(
            CARVE, (256, 256, 40) if quick else (512, 512, 400), repeats
        ),
        "steps": lambda: list(_steps(quick, repeats)),
        "waiting": lambda: list(_waiting(quick, found["steps"])),
    }
    for name, measure in parts.items():
        found[name] = measure()
        write_text(
            out, json.dumps(found, indent=2) + "\n"
        )  # what is measured is kept, also by those who lose patience
    _print(found)
    return found


def _steps(quick: bool, repeats: int) -> Iterator[dict[str, Any]]:
    """The quick one spares the compiler's minutes."""
    for configuration in (BRATS, CARVE):
        yield from measure_steps(
            configuration, QUICK if quick else tuple(METHODS), repeats, compiled=False
        )
        if not quick:
            yield from measure_steps(configuration, COMPILED, repeats, compiled=True)


def _waiting(quick: bool, steps: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Volumes as large as those of the paper's data sets, or, in a hurry, a part of them."""
    for configuration, shape in ((BRATS, (240, 240, 155)), (CARVE, (512, 512, 100))):
        wait = measure_waiting(configuration, (*shape[:2], 20) if quick else shape, 30)
        step = next(
            s["seconds"]
            for s in steps
            if (s["configuration"], s["method"]) == (configuration.name, PLAIN)
        )
        yield {"configuration": configuration.name, "seconds": wait, "share": wait / (wait + step)}


def _print(found: dict[str, Any]) -> None:
    """The tables for people."""
    console = Console()
    rate = found["product_flops_per_second"] / 1e9
    console.print(
        f"matrix product: {rate:.0f} GFLOP/s (spread {found['product_spread']:.0%}) on {found['device']}"
    )
    console.print(f"segpl --help: {found['help_seconds']:.2f} s")
    for title, rows in groupby(found["steps"], key=lambda row: row["configuration"]):
        heads = ("step of", "s", "spread", "GFLOP/s", "of product", "x MONAI", "x sup.", "GB")
        table = Table(*heads, title=title, box=SIMPLE, padding=(0, 1, 0, 0))
        for row in rows:
            name = f"{row['method']}, compiled" if row["compiled"] else row["method"]
            memory = f"{row['peak_memory_bytes'] / 1e9:.1f}" if row["peak_memory_bytes"] else "?"
            numbers = [
                f"{row['seconds']:.3f}",
                f"{row['spread']:.0%}",
                f"{row['flops_per_second'] / 1e9:.0f}",
            ]
            ratios = [
                f"{row['share_of_product']:.0%}",
                f"{row['speed_up']:.2f}",
                f"{row['ratio_to_supervised']:.2f}",
            ]
            table.add_row(name, *numbers, *ratios, memory)
        console.print(table)
    for row in found["waiting"]:
        wait = f"{1000 * row['seconds']:.1f} ms, {row['share']:.1%} of a step"
        console.print(f"waiting for a batch, {row['configuration']}: {wait}")
    for row in found["cases"]:
        console.print(
            f"{row['cases']} cases: {1000 * row['seconds']:.1f} ms a batch, {row['memory_bytes'] / 1e6:.0f} MB held"
        )
    one = found["prediction"]
    share = f"{one['share_in_network']:.0%} of {one['seconds']:.0f} s in the network"
    rates = f"{one['voxels_per_second'] / 1e6:.2f} (network alone {one['bare_voxels_per_second'] / 1e6:.2f})"
    peak = (
        f"{one['peak_memory_bytes'] / 1e9:.1f} GB" if one["peak_memory_bytes"] else "memory unknown"
    )
    console.print(f"prediction of {one['shape']}: {rates} million voxels/s, {share}, {peak}")
