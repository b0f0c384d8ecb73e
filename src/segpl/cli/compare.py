"""`segpl compare`."""

from pathlib import Path
from typing import Annotated

import typer

from segpl import api
from segpl.cli.next_commands import show_next


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Scored run directories, or folders of them."),
    ],
    baseline: Annotated[
        str, typer.Option(metavar="METHOD", help="Method to compare with.")
    ] = "supervised",
) -> None:
    """Answer whether the unlabelled scans helped: methods against a baseline, subject by subject."""
    api.compare(runs, baseline=baseline)
    show_next(["segpl", "report", *runs])
