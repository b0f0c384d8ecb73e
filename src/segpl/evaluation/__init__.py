"""How good a trained run is on cases it has never met: `scores.csv`, and what figures and statistics need beside it."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from segpl.data.cache import parts_of
from segpl.data.cases import Case, Dataset, Task
from segpl.data.layouts import read_dataset
from segpl.data.splits import cases_for_test
from segpl.evaluation.evaluator import Evaluator, Places
from segpl.evaluation.ledger import Ledger
from segpl.evaluation.shifts import Clean, Shift
from segpl.foundation.errors import UserError
from segpl.foundation.files import file_name, write_text
from segpl.foundation.progress import console, track
from segpl.inference.predictor import load
from segpl.inference.temperature import read_temperature, save_temperature
from segpl.rundir import RUN_FILE, SPLIT_FILE, TEMPERATURE_FILE, WEIGHTS_FILE, scoring, write_json
from segpl.settings.run import Run

VERSION = 4
"""Raise it when the same weights would predict, or be scored, differently."""


def evaluate(
    directory: Path,
    data: Path | None = None,
    shifts: Sequence[Shift] = (Clean(0.0),),
    out: Path | None = None,
    samples: int = 1,
    tolerance: float = 1.0,
    first: int | None = None,
) -> Path:
    """Score a run on the test cases of its own data, or of `data`, or on the `first` few; return the file of scores.

    Beside it go `images.csv`, `curves.csv`, the clean masks and their probabilities. What an earlier call measured with
    the same weights on the same files is not measured again, and stays in the file.
    """
    predictor = load(directory)
    run = predictor.run
    split = json.loads((directory / SPLIT_FILE).read_text(encoding="utf-8"))
    elsewhere = data.resolve() if data and data.resolve() != run.data.resolve() else None
    dataset = _dataset(elsewhere or run.data, predictor.task, directory)
    cases = (_strangers(dataset, split) if elsewhere else _held_out(dataset, run, split))[:first]
    if not cases:
        raise UserError(f"{dataset.folder} has no labelled test case: add some to its test part.")
    suffix = (f"-{data.resolve().name}" if data else "") + (
        f"-{samples}-samples" if samples > 1 else ""
    )
    files = scoring(directory, suffix)
    pictured = min(case.name for case in cases)
    places = Places(
        masks=files.masks,
        probabilities=files.probabilities,
        pictures=files.measured / file_name(pictured),
        pictured=pictured,
    )
    evaluator = Evaluator(predictor, samples, tolerance, places)
    # Fitted to plain predictions, however many samples are asked for: the order of evaluations must not matter.
    plain = Evaluator(predictor, 1, tolerance, places)
    temperature = _temperature(plain, directory, split["validation"])
    key = {
        "version": VERSION,
        "samples": samples,
        "tolerance": tolerance,
        "temperature": temperature,
    }
    ledger = Ledger(
        files.measured,
        key | _contents(directory, cases) | ({"data": str(data.resolve())} if data else {}),
    )
    _check_owner(ledger)
    ledger.open()
    _measure(ledger, evaluator, cases, shifts, temperature, directory.name)
    if evaluator.rates:
        cost = {
            "samples": samples,
            "voxels_per_second": median(evaluator.rates),
            "device": str(predictor.device),
        }
        write_json(files.prediction_cost, cost)
    written = {"scores": files.scores, "images": files.images, "curves": files.curves}
    if out:
        written = {kind: out.with_name(f"{out.stem}-{kind}.csv") for kind in written}
        written["scores"] = out
    origin = {
        "run": directory.name,
        "method": run.method.name(),
        "seed": run.seed,
        "labelled": run.labelled,
    }
    for kind, table in ledger.tables([case.name for case in cases])._asdict().items():
        write_text(
            written[kind], table.assign(**origin)[[*origin, *table.columns]].to_csv(index=False)
        )
    return written["scores"]


def _measure(
    ledger: Ledger,
    evaluator: Evaluator,
    cases: Sequence[Case],
    shifts: Sequence[Shift],
    temperature: float | None,
    name: str,
) -> None:
    """Measure what the ledger lacks."""
    pairs = [(case, shift) for case in cases for shift in shifts]
    todo = [(case, shift) for case, shift in pairs if not ledger.has(case.name, shift)]
    if len(todo) < len(pairs):
        console.print(
            f"{name}: {len(pairs) - len(todo)} of {len(pairs)} cases and shifts were measured before"
        )
    for case, shift in track(todo, f"Scoring {name}"):
        ledger.add(case.name, shift, evaluator.measure(case, shift, temperature))


def _dataset(folder: Path, task: Task, directory: Path) -> Dataset:
    dataset = read_dataset(folder)
    if dataset.task != task:
        raise UserError(
            f"{folder} has other channels or regions than {directory} was trained on: give the same."
        )
    return dataset


def _held_out(dataset: Dataset, run: Run, split: dict[str, Any]) -> list[Case]:
    """Labels that were added since may have moved the split: whoever the run has seen is never a test subject."""
    drawn = cases_for_test(dataset, run.seed, run.test)
    return [case for case in drawn if case.subject not in split["subjects"]]


def _strangers(dataset: Dataset, split: dict[str, Any]) -> list[Case]:
    """The test part of other data or, where it has none, all that is labelled, since nobody trains there.

    But it may be the run's own data, moved: subjects whose names the run knows are left out.
    """
    if tested := [case for case in dataset.test if case.label]:
        return tested
    labelled = [case for case in dataset.training if case.label]
    strangers = [case for case in labelled if case.subject not in split["subjects"]]
    if known := len(labelled) - len(strangers):
        console.print(
            f"{dataset.folder}: {known} cases are left out, because the run has seen subjects of their names"
        )
    return strangers


def _check_owner(ledger: Ledger) -> None:
    """Scores on other data carry the name of its folder, and two folders may have one name."""
    before, now = ledger.before().get("data"), ledger.key.get("data")
    if before and before != now:
        raise UserError(
            f"{ledger.folder} has the scores of {before}, and {now} would take their place: rename its folder, or "
            f"remove {ledger.folder}."
        )


def _temperature(evaluator: Evaluator, directory: Path, validation: Sequence[str]) -> float | None:
    """The run's temperature, fitted on its validation cases the first time.

    None where the run has no validation cases, or where they are not there any more: the
    probabilities then stay as they are.
    """
    if (directory / TEMPERATURE_FILE).is_file():
        return read_temperature(directory)
    folder = evaluator.predictor.run.data
    training = read_dataset(folder).training if folder.exists() else ()
    cases = [case for case in training if case.name in validation and case.label]
    if not cases:
        reason = "it has no validation subjects"
        if validation:
            reason = f"its validation subjects are not in {folder}"
        console.print(f"{directory.name}: no temperature is fitted, because {reason}.")
        console.print("The probabilities are not calibrated.")
        return None
    save_temperature(directory, evaluator.temperature(cases))
    return read_temperature(directory)


def _contents(directory: Path, cases: Sequence[Case]) -> dict[str, Any]:
    """What the numbers depend on: the run, its weights, and the files of the test cases as they are now."""
    files = [
        part
        for case in cases
        for file in (*case.images, case.label)
        if file
        for part in parts_of(file)[0]
    ]
    stamps = [[str(file), file.stat().st_size, file.stat().st_mtime_ns] for file in files]
    run = (directory / RUN_FILE).read_bytes() + (directory / WEIGHTS_FILE).read_bytes()
    return {"run": _digest(run), "files": _digest(json.dumps(stamps).encode())}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
