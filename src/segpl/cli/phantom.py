"""`segpl phantom`."""

from pathlib import Path
from typing import Annotated

import typer

from segpl.cli.next_commands import answer_folder, show_next
from segpl.cli.options import Task


def phantom(
    task: Annotated[Task, typer.Argument(help="What the phantoms show.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")],
    subjects: Annotated[
        int,
        typer.Option(min=0, help="A third is labelled, a third unlabelled, a third for testing."),
    ] = 24,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the subjects.")] = 0,
) -> None:
    """Write a data set of phantoms in the nnU-Net layout."""
    from segpl.data.phantoms import write_phantoms

    write_phantoms(task, out, subjects, seed)
    print(f"{subjects} {task} phantoms in {out}")
    show_next(["segpl", "run", out, "--out", answer_folder(out)])
