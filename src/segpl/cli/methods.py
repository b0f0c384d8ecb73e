"""`segpl methods`."""

from typing import Annotated

import typer

from segpl.cli.next_commands import show_next
from segpl.cli.options import complete_method


def methods(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A method, a prior, or the word run: the settings that every training has.",
            autocompletion=complete_method,
        ),
    ] = None,
) -> None:
    """List methods, priors and shifts, or the settings of one with defaults and meanings."""
    from segpl.methods import METHODS
    from segpl.reporting.render import print_table
    from segpl.study.catalogue import catalogue, description, settings_table

    if name is None:
        for table in catalogue():
            print_table(table)
        show_next(["segpl", "methods", "NAME"], ["segpl", "methods", "run"])
        return
    print(description(name))
    print_table(settings_table(name))
    if name in METHODS:
        show_next(["segpl", "train", "DATA", "--method", name, "--out", "RUN"])
    else:
        show_next(["segpl", "train", "DATA", "--set", "KEY=VALUE", "--out", "RUN"])
