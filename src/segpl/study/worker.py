"""A process that works on one run of a study: `python -m segpl.study.worker DIRECTORY`.

Standard input is a pipe from the study. It closes even when the study is killed, and the process
ends with it.
"""

import argparse
import os
import sys
from pathlib import Path
from threading import Thread


def main() -> None:
    """Work on the directory that the command names."""
    parser = argparse.ArgumentParser(description="Work on one run of a study.")
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    Thread(target=_end_with_the_study, daemon=True).start()

    from segpl.study.work import work  # takes seconds, in which the study may end

    work(directory)


def _end_with_the_study() -> None:
    """Wait for the end of standard input, then end this process at once, whatever it does."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    main()
