"""`segpl benchmark`."""

from pathlib import Path
from typing import Annotated

import typer

from segpl.cli.next_commands import show_next


def benchmark(
    quick: Annotated[
        bool, typer.Option("--quick", help="Under two minutes: two methods, nothing compiled.")
    ] = False,
    repeats: Annotated[
        int, typer.Option(min=1, metavar="N", help="How often to repeat each measurement.")
    ] = 3,
    out: Annotated[Path, typer.Option(metavar="FILE", help="JSON file for the results.")] = Path(
        "benchmark.json"
    ),
) -> None:
    """Measure how fast this machine trains and predicts, relative to what its hardware can do."""
    from segpl.benchmark import benchmark

    benchmark(out, quick, repeats)
    print(f"numbers: {out}")
    show_next(["segpl", "doctor", "DATA"], comment="how long a training on your data takes")
