"""The command line: one small file per command, imported without torch so that help is quick."""

import io
import os
import sys

from segpl.cli.exits import NOBODY_READS, run_command


def main() -> None:
    """Run the command that this program was called with, and end with its exit code."""
    _print_any_name()
    try:
        try:
            code = run_command(sys.argv[1:])
        finally:
            # A closed pipe can be dealt with here, but not when Python ends.
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        code = NOBODY_READS
    sys.exit(code)


def _print_any_name() -> None:
    """File names can hold bytes that are no text: print them escaped, instead of failing."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Send what is still buffered nowhere: Python would complain about the closed pipe at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
