"""A process that works on one run of a study: `python -m segpl.study.worker DIRECTORY`.

Standard input is a pipe from the study. The pipe closes when the study ends, even if it is killed,
and this process then ends too.
"""

import argparse
import os
import sys
from pathlib import Path
from threading import Thread

from segpl.foundation.signals import Stopped, raising


def main() -> None:
    """Work on the run directory given on the command line."""
    parser = argparse.ArgumentParser(description="Work on one run of a study.")
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    Thread(target=_exit_with_the_study, daemon=True).start()
    try:
        with raising():
            # This import takes seconds, and the study may end meanwhile: watch the pipe first.
            from segpl.study.single_run import train_and_score

            train_and_score(directory)
    except Stopped as stopped:
        sys.exit(stopped.exit_code)


def _exit_with_the_study() -> None:
    """Wait until standard input closes, then end this process immediately."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    main()
