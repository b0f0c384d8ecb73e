"""The command line: thin, and nothing heavy is imported until a command runs."""

import os
import sys
import tempfile
import traceback
from collections.abc import Sequence

from segpl.cli.parser import command_line
from segpl.foundation.command import started_by
from segpl.foundation.errors import UserError

DONE = 0
UNEXPECTED = 1
WRONG_INPUT = 2
INTERRUPTED = 130
"""As shells say it of a program that Ctrl-C ended."""
NOBODY_READS = 141
"""As shells say it of a program that wrote to a pipe whose reader, such as head, had ended."""


def main() -> None:
    """Run the command that this program was called with, and end with its exit code."""
    try:
        try:
            code = run(sys.argv[1:])
        finally:
            sys.stdout.flush()  # here, and not when Python ends, a closed pipe can be dealt with
    except BrokenPipeError:
        _discard_output()
        code = NOBODY_READS
    sys.exit(code)


def run(words: Sequence[str]) -> int:
    """Run a command and return its exit code.

    0: done; 2: the input is wrong, said in one sentence; 130: interrupted; 141: nobody reads what is
    printed; 1: anything else.
    """
    options = command_line().parse_args(words)
    try:
        with started_by(["segpl", *words]):
            return options.function(options) or DONE
    except UserError as error:
        return _complain(str(error), WRONG_INPUT)
    except BrokenPipeError:
        raise
    except OSError as error:
        name = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return _complain(
            f"{name}: check the path, the disk, and that you may write there.", WRONG_INPUT
        )
    except KeyboardInterrupt:
        return _complain(options.when_stopped, INTERRUPTED)
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # which rich turns into an exit
            raise BrokenPipeError from None
        raise
    except Exception as error:
        with tempfile.NamedTemporaryFile("w", prefix="segpl-", suffix=".log", delete=False) as log:
            log.write(traceback.format_exc())
        return _complain(
            f"this should not have happened: {error!r}. Please report it with {log.name}.",
            UNEXPECTED,
        )


def _complain(message: str, code: int) -> int:
    print(f"segpl: {message}", file=sys.stderr)
    return code


def _discard_output() -> None:
    """Let what is still to be printed vanish: Python would complain of the closed pipe when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
