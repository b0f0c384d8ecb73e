"""`segpl rank`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from segpl import api
from segpl.cli.next_commands import next_training, show_next
from segpl.cli.options import AsJson, RunOrRuns, print_json


def rank(
    run: RunOrRuns,
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[SCAN...]",
            show_default="the run's own unlabelled scans",
            help="Files, folders or DICOM series.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="RUN/rank.csv",
            help="The list; a picture of each scan goes beside it.",
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", show_default="all", help="How many scans to list."),
    ] = None,
    order: Annotated[
        Literal["diverse", "uncertain"],
        typer.Option(help="Uncertain scans that differ from one another, or the most uncertain."),
    ] = "diverse",
    samples: Annotated[
        int, typer.Option(min=1, metavar="S", help="Samples per scan for the uncertainty.")
    ] = 1,
    json: AsJson = False,
) -> None:
    """List which scans to label next, the most useful first, and why."""
    ranking = api.rank(
        run, inputs or [], out=out, count=count, order=order, samples=samples, show=not json
    )
    if json:
        print_json(ranking.record())
        return
    print(f"ranking: {ranking}")
    show_next(
        ["segpl", "view", run],
        next_training(run),
        comment="once you have labelled the first of them",
    )
