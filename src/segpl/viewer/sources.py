"""What `segpl view` was given: a run, a folder of runs, the answer of `segpl run`, or data."""

import hashlib
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from segpl.foundation.errors import UserError
from segpl.rundir import (
    ANSWER_FILE,
    ANSWER_MASKS,
    RANK_FILE,
    RUN_FILE,
    WEIGHTS_FILE,
    read_mapping,
    run_directories,
)

PREDICTIONS = "viewed"
"""Folder of a run, or of a folder of runs, for the predictions of the scans that were viewed."""


@dataclass(frozen=True)
class Source:
    """Where the scans, the model and its predictions are."""

    data: Path
    """A data folder, or a manifest."""
    runs: Path | None = None
    """A run directory, or a folder of runs that predict together; None shows labels only."""
    predictions: Path | None = None
    """Folder for the masks and probabilities of viewed scans, in the form of `segpl predict`."""
    earlier_predictions: Path | None = None
    """The folder of such predictions that `segpl run` has made; it is only read."""
    rankings: tuple[Path, ...] = ()
    """Where `segpl rank` or `segpl run` may have written their list, the best place first."""

    def ranking(self) -> Path | None:
        """The list of the scans to label next; None if there is none yet."""
        for file in self.rankings:
            if file.is_file():
                return file
        return None


def find_source(path: Path) -> Source:
    """What to view; a folder that is neither a run, nor an answer, nor data is an error."""
    if not path.exists():
        raise UserError(f"{path} does not exist: give a run, a folder of runs, or a data folder.")
    path = path.resolve()
    if (path / ANSWER_FILE).is_file():
        return _source_of_answer(path)
    if path.is_dir() and run_directories(path):
        rankings = [path / RANK_FILE]
        rankings += [run / RANK_FILE for run in run_directories(path)]
        return _source_of_runs(path, rankings)
    return Source(path)


def _source_of_answer(folder: Path) -> Source:
    """The better runs of `segpl run`, with the masks that it has made already."""
    name = read_mapping(folder / ANSWER_FILE).get("runs")
    if not isinstance(name, str) or not run_directories(folder / name):
        raise UserError(
            f"{folder / ANSWER_FILE} does not name a folder of runs: give that folder instead."
        )
    runs = folder / name
    source = _source_of_runs(runs, [runs / RANK_FILE, folder / RANK_FILE])
    return replace(source, earlier_predictions=folder / ANSWER_MASKS)


def _source_of_runs(runs: Path, rankings: list[Path]) -> Source:
    data: set[Path] = set()
    for run in run_directories(runs):
        if not (run / WEIGHTS_FILE).is_file():
            raise UserError(
                f"{run} is not trained to the end: continue it with segpl train --resume, or give "
                "another run."
            )
        data.add(_data_of(run))
    if len(data) > 1:
        both = " and ".join(str(folder) for folder in sorted(data))
        raise UserError(f"the runs in {runs} were trained on {both}: give one run.")
    predictions = _writable(runs / PREDICTIONS) / _digest(runs)
    return Source(data.pop(), runs, predictions, rankings=tuple(rankings))


def _digest(runs: Path) -> str:
    """A name for the weights of all runs, so that other weights have other predictions."""
    digest = hashlib.sha256()
    for run in run_directories(runs):
        digest.update((run / WEIGHTS_FILE).read_bytes())
    return digest.hexdigest()[:12]


def _data_of(run: Path) -> Path:
    data = Path(str(read_mapping(run / RUN_FILE).get("data"))).resolve()
    if not data.exists():
        raise UserError(
            f"{data}, which {run} was trained on, does not exist: put the data back, or give a "
            "data folder."
        )
    return data


def _writable(folder: Path) -> Path:
    """The folder or, where it cannot be written, a temporary one."""
    existing = folder if folder.exists() else folder.parent
    if os.access(existing, os.W_OK):
        return folder
    return Path(tempfile.mkdtemp(prefix="segpl-viewed-"))
