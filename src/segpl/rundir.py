"""The run directory: its format, its file names, and readers and writers of its plain files.

This module does not import torch.
"""

import io
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import UInt16
from safetensors import SafetensorError, safe_open

from segpl.foundation.errors import UserError
from segpl.foundation.files import write_bytes, write_text
from segpl.foundation.named import validated
from segpl.foundation.plain_files import read_json, read_yaml_values
from segpl.foundation.tables import unescaped

FORMAT = 2
"""Version of the directories that are written now. segpl 0.1 wrote format 1, without a number."""

RUN_FILE = "run.yaml"
"""Everything that determined the training."""
TASK_FILE = "task.yaml"
"""The channels that the model takes and the regions that it segments."""
SPLIT_FILE = "split.json"
"""Which cases were used as labelled, unlabelled and validation cases."""
PROVENANCE_FILE = "provenance.json"
"""Versions, machine, command, time and data; one more entry each time the training resumes."""
FACTS_FILE = "facts.json"
"""The format, and what training recorded for the report: see `segpl.training.facts`."""
LOG_FILE = "log.csv"
"""Losses and other values, one row per step."""
COST_FILE = "cost.json"
"""What a training cost: parameters, operations, seconds, memory."""
WEIGHTS_FILE = "model.safetensors"
"""The trained weights. They exist only if the training has ended."""
LAST_CHECKPOINT = Path("checkpoints/last.ckpt")
"""The state at the last validation, from which a training resumes."""
PREVIOUS_CHECKPOINT = Path("checkpoints/previous.ckpt")
"""The state at the validation before, for the case that the last file is damaged."""
STOPPED_CHECKPOINT = Path("checkpoints/stopped.ckpt")
"""The state in which a signal stopped the training, if that was between two validations."""
BEST_CHECKPOINT = Path("checkpoints/best.ckpt")
"""The weights with the best score on the validation subjects so far."""
TENSORBOARD = "tensorboard"
"""Folder of the TensorBoard log."""
TEMPERATURE_FILE = "temperature.json"
"""The temperature that was fitted on the validation subjects."""
LEVELS_FILE = "levels.npz"
"""Exact probabilities of one slice, in the folder of a case's measurements: see `SliceLevels`."""
STATISTICS_FILE = "statistics.json"
"""Size, grey values and texture of the training scans, to recognise scans that are unlike them."""
SCORES_FILE = "scores.csv"
"""Scores of the test cases, one per row."""
RANK_FILE = "rank.csv"
"""Which scans to label next."""

ANSWER_FILE = "answer.json"
"""In the folder of `segpl run`: `runs` names the folder of the runs that predict together."""
ANSWER_MASKS = "masks"
"""In the folder of `segpl run`: the masks and probabilities that those runs predicted."""

RUNS_FOLDER = "runs"
"""Folder of a study that holds its run directories."""
RUNS_FILE = "runs.json"
"""In a study's folder: method and budget of each run by name. Other runs there are outdated."""

TEXT_COLUMNS = ("run", "method", "subject", "case", "region", "shift", "metric", "curve")
"""Columns that are always read as text: subject 007 is not subject 7; a case may be called NA."""

NUMBER_COLUMNS = ("seed", "level", "value", "image", "foreground", "x", "y", "voxels")
"""Columns that must hold numbers."""


class SliceLevels(NamedTuple):
    """The probabilities of the slice of a case with most foreground, as 16-bit levels.

    Level 65535 is probability 1. Probabilities of whole volumes are stored in per cent, which is
    too coarse for logits; levels of whole volumes would be a hundred times larger.
    """

    z: int
    """The index of the slice."""
    levels: UInt16[np.ndarray, "X Y K"]


class ScoringFiles(NamedTuple):
    """The files of one evaluation.

    Their names end in a suffix for the number of samples and for data other than the run's own.
    """

    scores: Path
    images: Path
    curves: Path
    masks: Path
    probabilities: Path
    measured: Path
    """Folder of the measurements so far, a file for each case."""
    prediction_cost: Path


def scoring_files(directory: Path, suffix: str = "") -> ScoringFiles:
    """The paths of the files of an evaluation."""
    return ScoringFiles(
        scores=directory / f"scores{suffix}.csv",
        images=directory / f"images{suffix}.csv",
        curves=directory / f"curves{suffix}.csv",
        masks=directory / f"masks{suffix}",
        probabilities=directory / f"probabilities{suffix}",
        measured=directory / f"evaluation{suffix}",
        prediction_cost=directory / f"prediction_cost{suffix}.json",
    )


@dataclass(frozen=True)
class _Split:
    """The types of the entries of `split.json`."""

    labelled: list[str]
    unlabelled: list[str]
    validation: list[str]
    subjects: list[str] = field(default_factory=list)
    test_subjects: list[str] = field(default_factory=list)


def check_format(directory: Path) -> None:
    """Raise a `UserError` unless this is a run directory of a known format."""
    if not (directory / RUN_FILE).is_file():
        raise UserError(
            f"{directory} is not a run directory (it has no {RUN_FILE}): "
            "give a folder made by segpl train."
        )
    file = directory / FACTS_FILE
    facts = read_mapping(file) if file.is_file() else {}
    written_format = facts.get("format", 1)
    if not isinstance(written_format, int):
        raise UserError(f"{file}: format is {written_format!r}, not a number: train the run again.")
    if written_format > FORMAT:
        raise UserError(
            f"{directory} was written by a later version of segpl "
            f"(format {written_format}, this one knows {FORMAT}): update segpl."
        )


def run_directories(folder: Path) -> list[Path]:
    """The folder itself if it is a run directory, otherwise the run directories in it.

    Those of a study are in its folder `runs`. The list is empty if there are none.
    """
    if (folder / RUN_FILE).is_file():
        return [folder]
    runs = folder / RUNS_FOLDER
    if not runs.is_dir():
        runs = folder
    return sorted(file.parent for file in runs.glob(f"*/{RUN_FILE}"))


def read_split(directory: Path) -> dict[str, Any] | None:
    """The contents of `split.json`: cases by their use, and subjects; None if there is no file."""
    file = directory / SPLIT_FILE
    if not file.is_file():
        return None
    contents = read_mapping(file)
    names = [entry.name for entry in fields(_Split)]
    validated(_Split, {name: contents[name] for name in names if name in contents}, f"{file}: ")
    return contents


def required_split(directory: Path) -> dict[str, Any]:
    """The contents of `split.json`; an error if there is no file."""
    split = read_split(directory)
    if split is None:
        file = directory / SPLIT_FILE
        raise UserError(f"{file} is missing, so the test cases are not known: train the run again.")
    return split


def is_trained(directory: Path) -> bool:
    """Whether the training has ended: its weights exist, and the file has its full length."""
    file = directory / WEIGHTS_FILE
    if not file.is_file():
        return False
    try:
        with safe_open(file, framework="numpy"):
            return True
    except SafetensorError:
        return False


def write_json(file: Path, contents: Any) -> None:
    """Write numbers, strings, lists and mappings as indented JSON."""
    write_text(file, json.dumps(contents, indent=2) + "\n")


def read_plain(file: Path) -> Any:
    """The contents of a JSON or YAML file; a `UserError` if the file is not valid."""
    read = read_json if file.suffix == ".json" else read_yaml_values
    try:
        return read(file)
    except ValueError as error:
        raise UserError(f"{file} cannot be read ({error}): write the run again.") from None


def read_mapping(file: Path) -> dict[str, Any]:
    """The mapping in a JSON or YAML file; a `UserError` if there is anything else."""
    contents = read_plain(file)
    if not isinstance(contents, dict):
        raise UserError(f"{file} holds no names with values: write the run again.")
    return contents


def read_text_table(file: Path) -> pd.DataFrame:
    """The table in a CSV file with every cell as text."""
    return _read_csv(file, dtype=str).map(unescaped)


def read_numbers(file: Path) -> pd.DataFrame:
    """The table in a CSV file that holds numbers only; an empty cell is NaN."""
    table = _read_csv(file, na_values=["", "nan", "NaN"])
    _check_numbers(file, table, table.columns)
    return table


def read_table(file: Path) -> pd.DataFrame:
    """The table in a CSV file, with exactly the numbers and names that were written."""
    table = _read_csv(
        file,
        dtype=dict.fromkeys(TEXT_COLUMNS, str),
        na_values={"value": [""], "labelled": [""], "foreground": [""]},
        float_precision="round_trip",
    )
    for name in TEXT_COLUMNS:
        if name in table:
            table[name] = table[name].map(unescaped)
    _check_numbers(file, table, NUMBER_COLUMNS)
    return table


def _check_numbers(file: Path, table: pd.DataFrame, columns: Iterable[str]) -> None:
    """Raise a `UserError` if one of the columns holds text. A table without rows has no types."""
    for name in columns:
        if len(table) and name in table and table[name].dtype.kind == "O":
            raise UserError(f"{file}: the column {name} holds words: write it again.")


def _read_csv(file: Path, **options: Any) -> pd.DataFrame:
    try:
        return pd.read_csv(
            file, keep_default_na=False, encoding_errors="surrogateescape", **options
        )
    except (ValueError, OverflowError) as error:  # ValueError: also those of pandas' parser
        reason = " ".join(str(error).split())
        raise UserError(f"{file} cannot be read ({reason}): write it again.") from None


def write_slice_levels(file: Path, slice_levels: SliceLevels) -> None:
    """Write the exact probabilities of a slice."""
    stream = io.BytesIO()
    np.savez_compressed(stream, z=slice_levels.z, levels=slice_levels.levels)
    write_bytes(file, stream.getvalue())


def read_slice_levels(file: Path) -> SliceLevels | None:
    """What `write_slice_levels` wrote; None if there is no file."""
    if not file.is_file():
        return None
    with np.load(file) as arrays:
        return SliceLevels(int(arrays["z"]), arrays["levels"])


def scoring_suffix(run: Path) -> str | None:
    """The suffix of the files of a run's evaluation; None if the run was not evaluated.

    It is empty for an evaluation without samples. If there are only evaluations with samples, it
    is that of the one with most samples.
    """
    if (run / SCORES_FILE).is_file():
        return ""
    most_samples = 0
    suffix = None
    for file in run.glob("scores-*-samples.csv"):
        match = re.fullmatch(r"scores(-(\d+)-samples)\.csv", file.name)
        if match and int(match[2]) > most_samples:
            most_samples = int(match[2])
            suffix = match[1]
    return suffix
