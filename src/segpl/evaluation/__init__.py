"""From a run directory to `scores.csv`: how good a trained run is on unseen cases."""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from segpl.data.cases import Case
from segpl.data.digests import image_files
from segpl.data.formats import stores_geometry
from segpl.data.layouts import read_dataset
from segpl.evaluation.evaluator import Evaluator, OutputPaths
from segpl.evaluation.held_out import find_test_cases
from segpl.evaluation.measurements import Measurements, Tables
from segpl.evaluation.shifts import Clean, Shift
from segpl.foundation.errors import UserError
from segpl.foundation.files import remove_drafts
from segpl.foundation.locks import exclusive_use
from segpl.foundation.progress import console, track
from segpl.foundation.tables import write_frame
from segpl.inference.predictor import load
from segpl.inference.temperature import read_temperature, save_temperature
from segpl.rundir import (
    RUN_FILE,
    WEIGHTS_FILE,
    ScoringFiles,
    check_format,
    required_split,
    scoring_files,
    write_json,
)
from segpl.settings.run import Run

VERSION = 5
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
    """Score a run on the test cases of its own data or of `data`; return the file of scores.

    `first` limits the number of cases. `images.csv`, `curves.csv`, the clean masks and their
    probabilities go next to the scores. What an earlier call measured with the same weights on the
    same files is not measured again, and stays in the file.
    """
    check_format(directory)
    with exclusive_use(directory):
        remove_drafts(directory, depth=2)
        return _evaluate(directory, data, shifts, out, samples, tolerance, first)


def _evaluate(
    directory: Path,
    data: Path | None,
    shifts: Sequence[Shift],
    out: Path | None,
    samples: int,
    tolerance: float,
    first: int | None,
) -> Path:
    predictor = load(directory)
    split = required_split(directory)
    cases = find_test_cases(predictor, directory, split, data)[:first]
    _report_unknown_spacing(cases, directory.name)
    files = scoring_files(directory, _suffix(data, samples))
    outputs = _output_paths(files, cases)
    evaluator = Evaluator(predictor, samples, tolerance, outputs)
    # The temperature is always fitted without samples: the order of evaluations must not matter.
    without_samples = Evaluator(predictor, 1, tolerance, outputs)
    temperature = _temperature(without_samples, directory, split["validation"])
    key = {
        "version": VERSION,
        "samples": samples,
        "tolerance": tolerance,
        "temperature": temperature,
        "run": _digest_of_run(directory),
        "files": _digest_of_files(cases),
    }
    if data:
        key["data"] = str(data.resolve())
    measurements = Measurements(files.measured, key)
    _check_same_data(measurements)
    measurements.open()
    _measure_missing(measurements, evaluator, cases, shifts, temperature, directory.name)
    _write_prediction_cost(files.prediction_cost, evaluator)
    tables = measurements.tables([case.name for case in cases])
    return _write_tables(tables, files, out, directory.name, predictor.run)


def _report_unknown_spacing(cases: Sequence[Case], run_name: str) -> None:
    """Say so if distances are in pixels, because the labels do not store their spacing."""
    labels = [case.label for case in cases if case.label]
    unknown = [label for label in labels if not stores_geometry(label)]
    if unknown:
        console.print(
            f"{run_name}: {len(unknown)} of {len(labels)} labels do not store their spacing, so "
            "their HD95 and the tolerance are in pixels, and 1000 voxels count as 1 ml."
        )


def _suffix(data: Path | None, samples: int) -> str:
    """The ending of the file names: the data folder if one is given, and the samples."""
    suffix = ""
    if data:
        suffix += f"-{data.resolve().name}"
    if samples > 1:
        suffix += f"-{samples}-samples"
    return suffix


def _output_paths(files: ScoringFiles, cases: Sequence[Case]) -> OutputPaths:
    return OutputPaths(
        masks=files.masks,
        probabilities=files.probabilities,
        measured=files.measured,
        pictured_case=min(case.name for case in cases),
    )


def _measure_missing(
    measurements: Measurements,
    evaluator: Evaluator,
    cases: Sequence[Case],
    shifts: Sequence[Shift],
    temperature: float | None,
    run_name: str,
) -> None:
    """Measure every case under every shift that was not measured before."""
    missing = []
    for case in cases:
        for shift in shifts:
            if not measurements.has(case.name, shift):
                missing.append((case, shift))
    total = len(cases) * len(shifts)
    measured_before = total - len(missing)
    if measured_before:
        console.print(
            f"{run_name}: {measured_before} of {total} measurements exist already and are kept."
        )
    for case, shift in track(missing, f"Scoring {run_name}"):
        tables = evaluator.measure(case, shift, temperature)
        measurements.add(case.name, shift, tables)


def _write_prediction_cost(file: Path, evaluator: Evaluator) -> None:
    """Write the speed of prediction, if any clean image was predicted."""
    if evaluator.voxel_rates:
        cost = {
            "samples": evaluator.samples,
            "voxels_per_second": median(evaluator.voxel_rates),
            "device": str(evaluator.predictor.device),
        }
        write_json(file, cost)


def _write_tables(
    tables: Tables,
    files: ScoringFiles,
    out: Path | None,
    run_name: str,
    run: Run,
) -> Path:
    """Write the three tables with columns that identify the run; return the file of scores.

    With `out`, the scores go there and the other tables next to it.
    """
    run_columns = {
        "run": run_name,
        "method": run.method.name(),
        "seed": run.seed,
        "labelled": run.labelled,
    }
    paths = {"scores": files.scores, "images": files.images, "curves": files.curves}
    if out:
        paths = {
            "scores": out,
            "images": out.with_name(f"{out.stem}-images.csv"),
            "curves": out.with_name(f"{out.stem}-curves.csv"),
        }
    for kind, table in tables._asdict().items():
        columns = [*run_columns, *table.columns]
        complete = table.assign(**run_columns)[columns]
        write_frame(paths[kind], complete)
    return paths["scores"]


def _check_same_data(measurements: Measurements) -> None:
    """Refuse to replace the scores on another folder that has the same name."""
    data_before = measurements.stored_key().get("data")
    data_now = measurements.key.get("data")
    if data_before and data_before != data_now:
        raise UserError(
            f"{measurements.folder} has the scores of {data_before}, and {data_now} would take "
            f"their place: rename the folder of the data, or remove {measurements.folder}."
        )


def _temperature(evaluator: Evaluator, directory: Path, validation: Sequence[str]) -> float | None:
    """The run's temperature, fitted on its validation cases the first time.

    None if the run has no validation cases, or if they cannot be found: the probabilities then
    stay as they are.
    """
    with suppress(UserError):  # not fitted yet, or damaged
        return read_temperature(directory)
    cases = _labelled_cases(evaluator.predictor.run.data, validation)
    if not cases:
        reason = "it has no validation subjects"
        if validation:
            reason = f"its validation subjects are not in {evaluator.predictor.run.data}"
        console.print(f"{directory.name}: no temperature is fitted, because {reason}.")
        console.print("The probabilities are not calibrated.")
        return None
    save_temperature(directory, evaluator.fit_temperature(cases))
    return read_temperature(directory)


def _labelled_cases(folder: Path, names: Sequence[str]) -> list[Case]:
    """The labelled training cases of these names that are still in the folder."""
    if not folder.exists():
        return []
    training = read_dataset(folder).training
    return [case for case in training if case.name in names and case.label]


def _digest_of_run(directory: Path) -> str:
    """Changes with the run's settings and weights."""
    settings = (directory / RUN_FILE).read_bytes()
    weights = (directory / WEIGHTS_FILE).read_bytes()
    return _digest(settings + weights)


def _digest_of_files(cases: Sequence[Case]) -> str:
    """Changes with the names, sizes and times of the files of the test cases."""
    stamps: list[list[Any]] = []
    for case in cases:
        images_and_label = [*case.images, case.label] if case.label else case.images
        for image in images_and_label:
            files, _ = image_files(image)
            for file in files:
                status = file.stat()
                stamps.append([str(file), status.st_size, status.st_mtime_ns])
    return _digest(json.dumps(stamps).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
