"""The next useful commands, ready to paste: each command ends with them."""

import shlex
from collections.abc import Sequence
from pathlib import Path

Words = Sequence[object]
"""A command, word by word."""


def show_next(*commands: Words, comment: str = "") -> None:
    """Print the commands to standard error; the comment is about the last one."""
    from segpl.foundation.progress import console  # slow to import, and `--help` needs no progress

    for index, words in enumerate(commands):
        title = "Next:" if index == 0 else "     "
        line = f"{title} {shlex.join(str(word) for word in words)}"
        if comment and index == len(commands) - 1:
            line += f"  # {comment}"
        console.print(line, markup=False)


def answer_folder(data: Path) -> Path:
    """A folder for what `segpl run` makes of a data folder, beside it."""
    return data.with_name(f"{data.resolve().name}-answer")


def comparison_of(run: Path) -> list[Words]:
    """The comparison of a run with the other scored runs of its folder, if there are any."""
    from segpl.rundir import SCORES_FILE, run_directories

    folder = run.resolve().parent
    scored = [other for other in run_directories(folder) if (other / SCORES_FILE).is_file()]
    return [["segpl", "compare", run.parent]] if len(scored) > 1 else []


def first_run(folders: Sequence[Path]) -> Path | None:
    """The first finished run in these folders; None if there is none."""
    from segpl.rundir import WEIGHTS_FILE, run_directories

    for folder in folders:
        for run in run_directories(folder):
            if (run / WEIGHTS_FILE).is_file():
                return run
    return None


def next_training(run: Path) -> Words:
    """The training that learns from more labels of the same data, from the weights of the run."""
    from segpl.rundir import RUN_FILE, read_plain, run_directories

    first = run_directories(run)[0]
    settings = read_plain(first / RUN_FILE)
    out = run.with_name(f"{run.resolve().name}-2")
    return ["segpl", "train", settings["data"], "--from", first, "--out", out]
