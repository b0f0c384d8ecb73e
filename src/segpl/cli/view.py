"""`segpl view`."""

from pathlib import Path
from typing import Annotated

import typer

from segpl.cli.next_commands import next_training, show_next


def view(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="RUN_OR_DATA",
            help="A run, a folder of runs, the folder of segpl run, or a data folder.",
        ),
    ],
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, metavar="N", show_default="a free one", help="Port of the page."
        ),
    ] = 0,
    reviewer: Annotated[
        str,
        typer.Option(metavar="NAME", show_default=False, help="Your name, for the log of reviews."),
    ] = "",
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
) -> None:
    """Look at scans, masks and uncertainty in the browser; accept or correct the masks.

    Accepted and corrected masks are labels of the data from then on: the next segpl train or segpl
    run learns from them.
    """
    import webbrowser

    from segpl.viewer.serving import serve

    def announce(address: str) -> None:
        print(f"Viewer: {address}", flush=True)
        print("Only this computer can open it. Ctrl-C ends it; reviews are on disk.", flush=True)
        if browser:
            webbrowser.open(address)

    run = serve(path, port, reviewer, announce)
    if run is not None:
        show_next(next_training(run), comment="learns from the reviewed labels")
