"""`segpl study`."""

from pathlib import Path
from typing import Annotated

import typer

from segpl.cli.exits import DONE, UNEXPECTED, when_stopped
from segpl.cli.next_commands import show_next
from segpl.cli.options import OtherData, parse_positive


@when_stopped("What is done is kept.")
def study(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The study: data, methods, labels, seeds, shifts."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for runs and tables.")],
    data: OtherData = None,
    on: Annotated[
        str, typer.Option(metavar="WHERE", help="local, ray or ray://HOST:PORT.")
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            show_default="1; on Ray as many as fit",
            help="Number of runs in parallel.",
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            parser=parse_positive,
            metavar="MINUTES",
            help="Leave out the runs that do not fit, and list them.",
        ),
    ] = None,
) -> int:
    """Train, score and tabulate all runs that a study file lists."""
    from segpl.study.running import run_study

    failed = run_study(file, out, data, on, workers, budget)
    if not failed:
        show_next(["segpl", "report", out])
        return DONE
    print(
        f"{failed} runs failed: see failed.txt in their directories; "
        "the same command tries them again."
    )
    return UNEXPECTED
