"""The command line: one small file for each command, imported without torch so that help is quick."""

import os
import sys

from segpl.cli.exits import NOBODY_READS, run_command


def main() -> None:
    """Run the command that this program was called with, and end with its exit code."""
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


def _discard_output() -> None:
    """Send what is still buffered nowhere: Python would complain about the closed pipe at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
