"""`segpl evaluate`."""

from pathlib import Path
from typing import Annotated

import typer

from segpl import api
from segpl.cli.exits import when_stopped
from segpl.cli.next_commands import comparison_of, show_next
from segpl.cli.options import AsJson, RunDirectory, parse_positive, print_json


@when_stopped("What was measured is kept.")
def evaluate(
    run: RunDirectory,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA", help="Score on another data folder with the same channels and regions."
        ),
    ] = None,
    shift: Annotated[
        list[str],
        typer.Option(
            metavar="NAME[=LEVEL]",
            show_default=False,
            help="Also score on changed scans: ood=0.1 is one level, ood=0:0.1:6 six levels, "
            "ood five usual levels, all every shift; segpl methods lists the shifts.",
        ),
    ] = [],  # noqa: B006 - Typer reads the default and passes a list of its own
    samples: Annotated[
        int,
        typer.Option(min=1, metavar="S", help="Samples (thresholds or ensemble members) per mask."),
    ] = 1,
    tolerance: Annotated[
        float,
        typer.Option(
            parser=parse_positive,
            metavar="MM",
            help="Tolerance of the surface Dice; in pixels if the labels store no spacing.",
        ),
    ] = 1.0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default="RUN/scores.csv", help="Where the scores go."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Score a trained run on the test cases; write masks and scores.csv."""
    from segpl.reporting.score_summary import print_summary

    scores = api.evaluate(
        run, data=data, shifts=shift, samples=samples, tolerance=tolerance, out=out
    )
    if json:
        print_json(scores.record())
        return
    print_summary(scores.table)
    print(f"scores: {scores}")
    show_next(*comparison_of(run), ["segpl", "report", run])
