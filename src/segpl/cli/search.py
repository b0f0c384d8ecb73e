"""`segpl search`."""

from pathlib import Path
from typing import Annotated

import typer

from segpl.cli.exits import when_stopped
from segpl.cli.next_commands import show_next
from segpl.cli.options import OtherData


@when_stopped("The trials that have ended are kept.")
def search(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The search: data, settings, and the space to search."),
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the trials and the best run.yaml.")
    ],
    data: OtherData = None,
    trials: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            show_default="what FILE says",
            help="Stop when N trials are done.",
        ),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            show_default="a journal file in DIR",
            help="Database that several machines share.",
        ),
    ] = None,
) -> None:
    """Search for the best settings on the validation subjects and write them as a run.yaml."""
    from segpl.rundir import read_plain
    from segpl.study.search import search

    best = search(file, out, data, trials, storage)
    print(f"best settings: {best}")
    show_next(["segpl", "train", read_plain(best)["data"], "--config", best, "--out", out / "best"])
