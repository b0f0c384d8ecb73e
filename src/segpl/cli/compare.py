"""`segpl compare`."""

import json as json_module
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
    json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Did the unlabelled scans help? Compare methods with a baseline, subject by subject."""
    if json:
        from segpl.reporting.comparison import comparison_record

        print(json_module.dumps(comparison_record(runs, baseline), indent=2, allow_nan=False))
    else:
        api.compare(runs, baseline=baseline)
        show_next(["segpl", "report", *runs])
