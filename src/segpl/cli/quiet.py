"""The option `--quiet`, which every command has."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

QUIET = "quiet"
Quiet = Annotated[bool, typer.Option("--quiet", help="Print results only, no progress or advice.")]


def with_quiet(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with an option `--quiet`; the command itself if it has one of its own."""
    signature = inspect.signature(command)
    if QUIET in signature.parameters:
        return command

    @wraps(command)
    def quietable(*args: Any, quiet: bool = False, **kwargs: Any) -> Any:
        if not quiet:
            return command(*args, **kwargs)
        from segpl.foundation.progress import silenced  # slow to import, and `--help` needs none

        with silenced():
            return command(*args, **kwargs)

    option = inspect.Parameter(
        QUIET, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet
    )
    parameters = [*signature.parameters.values(), option]
    quietable.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    quietable.__annotations__ = {**command.__annotations__, QUIET: Quiet}
    return quietable
