"""One run of a study from its directory alone: trained, scored, and marked as done or failed.

The directory says what is wanted (`run.yaml`, `evaluation.json`), and what became of it (`done.json`, or `failed.txt`).
"""

import json
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from segpl.evaluation import evaluate
from segpl.evaluation.shifts import parse_shifts
from segpl.foundation.errors import UserError
from segpl.foundation.files import write_text
from segpl.settings.run import Run, read_run
from segpl.training.loop import train

EVALUATION, DONE, FAILED, OUTPUT = "evaluation.json", "done.json", "failed.txt", "output.log"


@dataclass(frozen=True)
class Evaluation:
    """How a run is to be scored."""

    shifts: list[str]
    samples: int
    cases: int | None = None
    """Only the first so many, where the time is what one wants to know; all by default."""


def prepare(directory: Path, run: Run, evaluation: Evaluation) -> None:
    """Write down what is wanted; what an earlier attempt failed of is forgotten."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / FAILED).unlink(missing_ok=True)
    run.save(directory)
    write_text(directory / EVALUATION, json.dumps(asdict(evaluation), indent=2) + "\n")


def work(directory: Path) -> None:
    """Train and score, each from where an earlier attempt stopped; whatever goes wrong is written down."""
    with FileLock(directory / ".lock"):  # a process that lost its study may still be ending
        try:
            _work(directory)
        except Exception as error:
            traceback.print_exc()
            fail(directory, str(error) if isinstance(error, UserError | OSError) else repr(error))


def _work(directory: Path) -> None:
    wanted = Evaluation(**json.loads((directory / EVALUATION).read_text(encoding="utf-8")))
    started = time.monotonic()
    train(read_run(directory), directory, resume=True)
    trained = time.monotonic()
    scores = evaluate(
        directory, shifts=parse_shifts(wanted.shifts), samples=wanted.samples, first=wanted.cases
    )
    seconds = {"training": trained - started, "evaluation": time.monotonic() - trained}
    contents = {"evaluation": asdict(wanted), "scores": scores.name, "seconds": seconds}
    write_text(directory / DONE, json.dumps(contents, indent=2) + "\n")


def fail(directory: Path, reason: str) -> None:
    """Write down why there is no result."""
    write_text(directory / FAILED, " ".join(reason.split()) + "\n")


def failure(directory: Path) -> str | None:
    """Why the last attempt failed, if it did."""
    file = directory / FAILED
    return file.read_text(encoding="utf-8").strip() if file.is_file() else None


def result(directory: Path, evaluation: Evaluation) -> dict[str, Any] | None:
    """What `done.json` says, if the run is trained and scored as wanted."""
    file = directory / DONE
    contents = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    whole = (
        contents.get("evaluation") == asdict(evaluation)
        and (directory / contents["scores"]).is_file()
    )
    return contents if whole else None
