"""`segpl demo`."""

from pathlib import Path
from typing import Annotated

import typer

from segpl.cli.exits import when_stopped
from segpl.cli.next_commands import show_next
from segpl.cli.options import Task


@when_stopped("What is done is kept.")
def demo(
    task: Annotated[Task, typer.Option(help="Which phantoms to train on.")] = "tumour",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output folder.")] = Path("demo"),
    seed: Annotated[
        int,
        typer.Option(
            min=0, help="Random seed of the labelled subjects, the weights and the batches."
        ),
    ] = 0,
    all: Annotated[
        bool, typer.Option("--all", help="Also train the paper's own methods, SegPL and SegPL-VI.")
    ] = False,
) -> None:
    """Train on built-in phantoms with and without unlabelled ones, score both and draw them."""
    from segpl.demo import demo

    demo(task, out, seed, all)
    show_next(["segpl", "run", "YOUR_DATA", "--out", "answer"])
