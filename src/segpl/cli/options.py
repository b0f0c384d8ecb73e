"""Parameters that several commands share, and the kinds of values that Typer does not know."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

RunDirectory = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run directory made by segpl train.")
]
RunOrRuns = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="Run directory made by segpl train, or a folder of runs, used as an ensemble.",
    ),
]
OtherData = Annotated[
    Path | None,
    typer.Option(metavar="DATA", help="Data folder to use instead of the one in FILE."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Task = Literal["tumour", "vessels"]


def print_json(contents: Any) -> None:
    """Print plain data; NaN, which JSON does not have, is an error."""
    print(json.dumps(contents, indent=2, allow_nan=False))


def parse_setting(text: str) -> tuple[str, Any]:
    """Split `key=value` and read the value as YAML."""
    from segpl.foundation.plain_files import parse_yaml

    key, equals, value = text.partition("=")
    if not key or not equals:
        raise typer.BadParameter(f"{text!r} is not of the form KEY=VALUE")
    try:
        return key, parse_yaml(value)
    except ValueError:
        raise typer.BadParameter(f"the value of {text!r} is not valid YAML") from None


def parse_positive(text: str | float) -> float:
    """Read a finite number above 0; Typer also passes a default, which is a number already."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise typer.BadParameter(f"{text!r} is not a number above 0")
    return value


def parse_temperature(text: str) -> str:
    """Check for a number above 0 or the word fit."""
    if text != "fit":
        parse_positive(text)
    return text


def complete_method(incomplete: str) -> list[str]:
    """Names of methods for the shell's completion."""
    from segpl.methods import METHODS

    return [name for name in METHODS if name.startswith(incomplete)]
