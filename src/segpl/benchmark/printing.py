"""The measurements of a benchmark as tables and sentences on the terminal."""

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

STEP_COLUMNS = ("step of", "s", "spread", "GFLOP/s", "of product", "x MONAI", "x sup.", "GB")


def print_measurements(measured: dict[str, Any]) -> None:
    """Print everything that `segpl benchmark` has measured."""
    console = Console()
    rate = measured["product_flops_per_second"] / 1e9
    spread = measured["product_spread"]
    device = measured["device"]
    console.print(f"matrix product: {rate:.0f} GFLOP/s (spread {spread:.0%}) on {device}")
    console.print(f"segpl --help: {measured['help_seconds']:.2f} s")
    for table in _step_tables(measured["steps"]):
        console.print(table)
    for row in measured["waiting"]:
        console.print(_waiting_line(row))
    for row in measured["cases"]:
        console.print(_growing_data(row))
    console.print(_prediction(measured["prediction"]))


def _step_tables(rows: Sequence[dict[str, Any]]) -> list[Table]:
    """A table for each configuration, in the order of the rows."""
    tables: dict[str, Table] = {}
    for row in rows:
        title = row["configuration"]
        if title not in tables:
            tables[title] = Table(
                *STEP_COLUMNS,
                title=title,
                box=SIMPLE,
                padding=(0, 1, 0, 0),
            )
        tables[title].add_row(*_step_cells(row))
    return list(tables.values())


def _step_cells(row: dict[str, Any]) -> list[str]:
    method = row["method"]
    memory = row["peak_memory_bytes"]
    return [
        f"{method}, compiled" if row["compiled"] else method,
        f"{row['seconds']:.3f}",
        f"{row['spread']:.0%}",
        f"{row['flops_per_second'] / 1e9:.0f}",
        f"{row['share_of_product']:.0%}",
        f"{row['speed_up']:.2f}",
        f"{row['ratio_to_supervised']:.2f}",
        f"{memory / 1e9:.1f}" if memory else "?",
    ]


def _waiting_line(row: dict[str, Any]) -> str:
    milliseconds = 1000 * row["seconds"]
    share = row["share"]
    return (
        f"waiting for a batch, {row['configuration']}: {milliseconds:.1f} ms, {share:.1%} of a step"
    )


def _growing_data(row: dict[str, Any]) -> str:
    milliseconds = 1000 * row["seconds"]
    megabytes = row["memory_bytes"] / 1e6
    return f"{row['cases']} cases: {milliseconds:.1f} ms a batch, {megabytes:.0f} MB held"


def _prediction(row: dict[str, Any]) -> str:
    rate = row["voxels_per_second"] / 1e6
    bare_rate = row["bare_voxels_per_second"] / 1e6
    memory = row["peak_memory_bytes"]
    peak = f"{memory / 1e9:.1f} GB" if memory else "memory unknown"
    return (
        f"prediction of {row['shape']}: "
        f"{rate:.2f} (network alone {bare_rate:.2f}) million voxels/s, "
        f"{row['share_in_network']:.0%} of {row['seconds']:.0f} s in the network, {peak}"
    )
