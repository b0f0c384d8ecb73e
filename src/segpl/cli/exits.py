"""How a command ends: its exit code, and one sentence if something is wrong."""

import shlex
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

import typer

from segpl.foundation.command import current_command, started_by
from segpl.foundation.errors import UserError
from segpl.foundation.signals import raising
from segpl.foundation.suggestions import suggest

DONE = 0
UNEXPECTED = 1
WRONG_INPUT = 2
INTERRUPTED = 130
"""The shells' code for a program that Ctrl-C ended; SIGTERM has 143, SIGHUP 129."""
NOBODY_READS = 141
"""The shells' code for a program whose output nobody reads any more, as in `segpl ... | head`."""

P = ParamSpec("P")
R = TypeVar("R")


class StoppedError(Exception):
    """A signal, such as Ctrl-C, has stopped the command; the message says how to continue."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


def when_stopped(message: str, *more_words: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a command with what is true after a signal has stopped it.

    The command that continues is printed too. It has `more_words`, if they are not in it already.
    """

    def decorate(command: Callable[P, R]) -> Callable[P, R]:
        @wraps(command)
        def stoppable(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return command(*args, **kwargs)
            except KeyboardInterrupt as stopped:
                words = current_command()
                words += [word for word in more_words if word not in words]
                advice = f"{message} Continue with: {shlex.join(words)}"
                exit_code = getattr(stopped, "exit_code", INTERRUPTED)
                raise StoppedError(advice, exit_code) from None

        return stoppable

    return decorate


def run_command(words: Sequence[str]) -> int:
    """Run a command and return its exit code.

    0: done; 2: the input is wrong; 129, 130, 143: stopped by a signal; 1: anything else. A broken
    pipe is raised.
    """
    with raising() as received:
        code = _run(words)
    return received.exit_code if code == INTERRUPTED else code


def _run(words: Sequence[str]) -> int:
    """Run a command and return its exit code, which may be 130 whatever the signal was."""
    # Imported here because the commands in it import this module.
    from segpl.cli.app import app

    try:
        with started_by(["segpl", *words]):
            code = app(list(words), prog_name="segpl", standalone_mode=False)
    except typer.TyperException as error:
        return _explain_usage(error)
    except UserError as error:
        return _complain(str(error), WRONG_INPUT)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _complain(_about_file(error), WRONG_INPUT)
    except StoppedError as stopped:
        return _complain(f"stopped. {stopped}", stopped.exit_code)
    except SystemExit as error:
        # rich turns a broken pipe into an exit.
        if isinstance(error.__context__, BrokenPipeError):
            raise BrokenPipeError from None
        raise
    except Exception as error:
        return _complain(_unexpected(error), UNEXPECTED)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:  # Typer turns a KeyboardInterrupt into this code, too
        return _complain("stopped.", INTERRUPTED)
    return code or DONE


def _complain(message: str, code: int) -> int:
    print(f"segpl: {_printable(message)}", file=sys.stderr)
    return code


def _printable(message: str) -> str:
    """The message with the control characters of file names escaped, apart from line breaks."""
    letters = []
    for letter in message:
        is_printable = letter.isprintable() or letter == "\n"
        letters.append(letter if is_printable else ascii(letter)[1:-1])
    return "".join(letters)


def _explain_usage(error: typer.TyperException) -> int:
    """Print what is wrong with the words of the command, and where help is."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "segpl"
    message = " ".join(error.format_message().split())
    options = getattr(error, "possibilities", None)
    if options:
        misspelt = getattr(error, "option_name", "")
        message = f"{error.message}.{suggest(misspelt, options)}"
    if not message.endswith((".", "?")):
        message += "."
    return _complain(f"{message} See {command} --help.", WRONG_INPUT)


def _about_file(error: OSError) -> str:
    problem = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return f"{problem}: check the path, the disk, and that you have access to it."


def _unexpected(error: Exception) -> str:
    """A sentence about a bug, with the traceback in a file rather than on the screen."""
    with tempfile.NamedTemporaryFile("w", prefix="segpl-", suffix=".log", delete=False) as log:
        log.write(traceback.format_exc())
    return f"this should not have happened: {error!r}. Please report it with {log.name}."
