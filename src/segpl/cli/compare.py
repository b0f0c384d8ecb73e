"""`segpl compare`."""

from pathlib import Path
from typing import Annotated

import typer

from segpl import api
from segpl.cli.next_commands import show_next
from segpl.cli.options import AsJson, print_json


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Scored run directories, or folders of them."),
    ],
    baseline: Annotated[
        str, typer.Option(metavar="METHOD", help="Method to compare with.")
    ] = "supervised",
    json: AsJson = False,
) -> None:
    """Did the unlabelled scans help? Compare methods with a baseline, subject by subject."""
    from segpl.reporting.comparison import print_comparison

    comparison = api.compare(runs, baseline=baseline)
    if json:
        print_json(comparison.record())
        return
    print_comparison(runs, baseline)
    show_next(["segpl", "report", *runs])
