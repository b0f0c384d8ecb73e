"""One run of a study, described by its directory alone: train it, score it, record the outcome.

`run.yaml` and `evaluation.json` say what to do. `done.json` or `failed.txt` says what happened.
"""

import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from segpl.evaluation import evaluate
from segpl.evaluation.shifts import parse_shifts
from segpl.foundation.errors import UserError
from segpl.foundation.files import make_folder, write_text
from segpl.foundation.locks import FOR_EVER, exclusive_use
from segpl.rundir import read_mapping, read_plain, write_json
from segpl.settings.run import Run, read_run
from segpl.training.loop import train

EVALUATION_FILE = "evaluation.json"
DONE_FILE = "done.json"
FAILED_FILE = "failed.txt"
OUTPUT_FILE = "output.log"


@dataclass(frozen=True)
class Evaluation:
    """How to score a run."""

    shifts: list[str]
    samples: int
    cases: int | None = None
    """Score only the first N cases, to time the scoring; all by default."""


def prepare(directory: Path, run: Run, evaluation: Evaluation) -> None:
    """Write down what to train and score, and remove the failure of an earlier attempt."""
    make_folder(directory)
    (directory / FAILED_FILE).unlink(missing_ok=True)
    run.save(directory)
    write_json(directory / EVALUATION_FILE, asdict(evaluation))


def train_and_score(directory: Path) -> None:
    """Train and score the run, continuing an earlier attempt; any error goes to `failed.txt`."""
    # The worker of a killed study may still be running: wait until it has ended.
    with exclusive_use(directory, wait=FOR_EVER):
        try:
            _train_and_score(directory)
        except Exception as error:
            traceback.print_exc()
            has_message = isinstance(error, UserError | OSError)
            record_failure(directory, str(error) if has_message else repr(error))


def _train_and_score(directory: Path) -> None:
    evaluation = Evaluation(**read_plain(directory / EVALUATION_FILE))
    started = time.monotonic()
    train(read_run(directory), directory, resume=True)
    trained = time.monotonic()
    scores = evaluate(
        directory,
        shifts=parse_shifts(evaluation.shifts),
        samples=evaluation.samples,
        first=evaluation.cases,
    )
    scored = time.monotonic()
    seconds = {"training": trained - started, "evaluation": scored - trained}
    contents = {"evaluation": asdict(evaluation), "scores": scores.name, "seconds": seconds}
    write_json(directory / DONE_FILE, contents)


def record_failure(directory: Path, reason: str) -> None:
    """Write the reason to `failed.txt`, on one line."""
    one_line = " ".join(reason.split())
    write_text(directory / FAILED_FILE, one_line + "\n")


def failure_reason(directory: Path) -> str | None:
    """Why the last attempt failed; None if it did not fail."""
    file = directory / FAILED_FILE
    return file.read_text(encoding="utf-8").strip() if file.is_file() else None


def finished_result(directory: Path, evaluation: Evaluation) -> dict[str, Any] | None:
    """The contents of `done.json`; None unless the run is trained and scored by `evaluation`.

    None also where the file is damaged: the run is then taken up again, and finds its weights.
    """
    file = directory / DONE_FILE
    if not file.is_file():
        return None
    try:
        contents = read_mapping(file)
    except UserError:
        return None
    if contents.get("evaluation") != asdict(evaluation):
        return None
    if not (directory / contents["scores"]).is_file():
        return None
    return contents
