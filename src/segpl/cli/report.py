"""`segpl report`."""

from pathlib import Path
from typing import Annotated

import typer

from segpl import api
from segpl.cli.next_commands import first_run, show_next


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="A run, a folder of runs, or a study.")
    ],
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            show_default="supervised, or another that learns from labels only",
            help="Method to compare with.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default="DIR/report.html", help="The page to write."),
    ] = None,
) -> None:
    """Write one HTML page about runs or a study: verdict, tables, figures and every case."""
    print(f"report: {api.report(folders, baseline=baseline, out=out)}")
    run = first_run(folders)
    if run is not None:
        show_next(["segpl", "predict", run, "NEW_SCANS", "--out", run / "predictions"])
