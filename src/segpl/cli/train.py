"""`segpl train`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from segpl import api
from segpl.cli.exits import when_stopped
from segpl.cli.next_commands import show_next
from segpl.cli.options import complete_method, parse_positive, parse_setting

LENGTH = "Length"
SETTINGS = "Settings"
MACHINE = "Machine"


@when_stopped("What was learnt up to here is kept.", "--resume")
def train(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Data folder; segpl doctor checks it.")
    ],
    out: Annotated[Path, typer.Option(metavar="RUN", help="Run directory to make.")],
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=complete_method,
            show_default="segpl-em; segpl with --config brats or carve",
            help="Training method; segpl methods lists them.",
        ),
    ] = None,
    labelled: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            show_default="all",
            help="Labelled subjects to use; the others count as unlabelled.",
        ),
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Start from the weights of a trained run, after scans were labelled.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the last checkpoint of RUN.")
    ] = False,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            rich_help_panel=LENGTH,
            show_default="from the data",
            help="Optimiser steps.",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            parser=parse_positive,
            metavar="N",
            rich_help_panel=LENGTH,
            help="Train for about N minutes.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            rich_help_panel=SETTINGS,
            show_default="0",
            help="Random seed of the split, the weights and the batches.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=SETTINGS,
            help="YAML of settings, such as a run.yaml; or brats, carve: the paper's.",
        ),
    ] = None,
    set: Annotated[
        list[Any],
        typer.Option(
            parser=parse_setting,
            metavar="KEY=VALUE",
            rich_help_panel=SETTINGS,
            show_default=False,
            help="One setting; segpl methods run and segpl methods NAME list them.",
        ),
    ] = [],  # noqa: B006 - Typer reads the default and passes a list of its own
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            rich_help_panel=MACHINE,
            show_default="SEGPL_CACHE, or the user's cache",
            help="Folder of prepared images.",
        ),
    ] = None,
    cache_limit: Annotated[
        float,
        typer.Option(metavar="GB", rich_help_panel=MACHINE, help="Maximum size of the cache."),
    ] = 20,
    devices: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            rich_help_panel=MACHINE,
            show_default="1",
            help="GPUs, or processes, on each machine.",
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            rich_help_panel=MACHINE,
            show_default="1, or what torchrun or SLURM started",
            help="Machines.",
        ),
    ] = None,
) -> None:
    """Train a model on a folder of labelled and unlabelled scans."""
    from segpl.foundation.progress import console

    console.print("Loading PyTorch")  # the first sign of life: this takes seconds
    from segpl.foundation.processes import is_first
    from segpl.settings.run import read_run

    if steps is not None and minutes is not None:
        raise typer.BadParameter("give --steps or --minutes, not both")
    options = {"labelled": labelled, "steps": steps, "seed": seed}
    settings = {key: value for key, value in options.items() if value is not None}
    trained = api.train(
        data,
        out,
        method=method,
        config=config,
        settings=settings | dict(set),
        minutes=minutes,
        start_from=start_from,
        resume=resume,
        cache=cache,
        cache_limit=cache_limit,
        devices=devices,
        nodes=nodes,
    )
    if is_first():
        directory = trained.path
        print(f"{read_run(directory).method.name()} is trained: {directory}")
        show_next(
            ["segpl", "evaluate", directory],
            ["segpl", "predict", directory, "NEW_SCANS", "--out", directory / "predictions"],
        )
