"""`segpl run`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from segpl import api
from segpl.cli.exits import when_stopped
from segpl.cli.next_commands import show_next
from segpl.cli.options import AsJson, complete_method, parse_positive, parse_setting, print_json


@when_stopped("What is done is kept.")
def run(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Folder of labelled and unlabelled scans.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output folder.")],
    minutes: Annotated[
        float | None,
        typer.Option(
            parser=parse_positive,
            metavar="N",
            show_default="as long as the planned trainings take",
            help="Finish in about N minutes.",
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Training runs per method; a verdict needs at least 2."
        ),
    ] = 3,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=complete_method,
            help="How to learn from unlabelled scans; segpl methods lists the methods.",
        ),
    ] = "segpl-em",
    labelled: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            show_default="all",
            help="Labelled subjects to use; the others count as unlabelled.",
        ),
    ] = None,
    set: Annotated[
        list[Any],
        typer.Option(
            parser=parse_setting,
            metavar="KEY=VALUE",
            show_default=False,
            help="One setting of all trainings; segpl methods run lists them.",
        ),
    ] = [],  # noqa: B006 - Typer reads the default and passes a list of its own
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the summary only.")] = False,
    json: AsJson = False,
) -> None:
    """Do everything: train with and without the unlabelled scans, and say whether they helped.

    Writes masks of the unlabelled scans with their uncertainty, a list of the scans to label next,
    and a report.
    """
    answer = api.run(
        data,
        out,
        minutes=minutes,
        seeds=seeds,
        method=method,
        labelled=labelled,
        settings=dict(set),
        quiet=quiet,
    )
    if json:
        print_json(answer.record())
        return
    for line in answer.lines():
        print(line)
    if not quiet:
        show_next(
            ["segpl", "view", out],
            ["segpl", "predict", answer.runs, "NEW_SCANS", "--out", out / "new-masks"],
            ["segpl", "run", data, "--out", out.with_name(f"{out.name}-2")],
            comment="once you have labelled more scans, or corrected masks in segpl view",
        )
