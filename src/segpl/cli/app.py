"""All commands of `segpl`."""

from typing import Annotated

import typer

from segpl import __version__
from segpl.cli.benchmark import benchmark
from segpl.cli.compare import compare
from segpl.cli.demo import demo
from segpl.cli.doctor import doctor
from segpl.cli.evaluate import evaluate
from segpl.cli.export import export
from segpl.cli.methods import methods
from segpl.cli.phantom import phantom
from segpl.cli.predict import predict
from segpl.cli.quiet import with_quiet
from segpl.cli.rank import rank
from segpl.cli.report import report
from segpl.cli.run import run
from segpl.cli.search import search
from segpl.cli.study import study
from segpl.cli.train import train
from segpl.cli.view import view

START = "Start"
USE = "Use a trained run"
RESEARCH = "Research"

app = typer.Typer(
    name="segpl",
    help="Semi-supervised segmentation of medical images.",
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

app.command(rich_help_panel=START)(with_quiet(run))
app.command(rich_help_panel=START)(with_quiet(demo))
app.command(rich_help_panel=START)(with_quiet(doctor))
app.command(rich_help_panel=START)(with_quiet(train))
app.command(rich_help_panel=START)(with_quiet(methods))
app.command(rich_help_panel=USE)(with_quiet(evaluate))
app.command(rich_help_panel=USE)(with_quiet(predict))
app.command(rich_help_panel=USE)(with_quiet(rank))
app.command(rich_help_panel=USE)(with_quiet(view))
app.command(rich_help_panel=USE)(with_quiet(compare))
app.command(rich_help_panel=USE)(with_quiet(report))
app.command(rich_help_panel=USE)(with_quiet(export))
app.command(rich_help_panel=RESEARCH)(with_quiet(study))
app.command(rich_help_panel=RESEARCH)(with_quiet(search))
app.command(rich_help_panel=RESEARCH)(with_quiet(phantom))
app.command(rich_help_panel=RESEARCH)(with_quiet(benchmark))


def _print_version(wanted: bool) -> bool:
    if wanted:
        print(f"segpl {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def options_of_all_commands(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Semi-supervised segmentation of medical images."""
