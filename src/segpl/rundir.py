"""The run directory: its format, every file name in it, and how its plain files are read and written. No torch."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import yaml

from segpl.foundation.errors import UserError
from segpl.foundation.files import write_text

FORMAT = 2
"""Of the run directories that this version writes. Version 0.1 of segpl wrote 1, and no number."""

RUN_FILE = "run.yaml"
"""Everything that determined the training."""
TASK_FILE = "task.yaml"
"""The channels that the model takes and the regions that it finds."""
SPLIT_FILE = "split.json"
"""Which cases were labelled, unlabelled and for validation."""
PROVENANCE_FILE = "provenance.json"
"""Versions, machine, command, time and data of the training; one more entry each time it goes on."""
FACTS_FILE = "facts.json"
"""The format, and what training recorded for the report: see `segpl.training.facts`."""
LOG_FILE = "log.csv"
"""Losses and the like, step by step."""
COST_FILE = "cost.json"
"""What a training cost: parameters, operations, seconds, memory."""
WEIGHTS_FILE = "model.safetensors"
"""The trained weights. The training has ended where it is."""
LAST_CHECKPOINT = Path("checkpoints/last.ckpt")
"""What a training goes on from."""
BEST_CHECKPOINT = Path("checkpoints/best.ckpt")
"""The weights that did best on the validation subjects so far."""
TENSORBOARD = "tensorboard"
"""Folder of the log for TensorBoard."""
TEMPERATURE_FILE = "temperature.json"
"""The temperature that was fitted on the validation subjects."""
SCORES_FILE = "scores.csv"
"""Scores of the test cases: long and tidy."""
RANK_FILE = "rank.csv"
"""Which scans to label next."""

RUNS_FILE = "runs.json"
"""In a study's folder: its runs by name, with the method and budget of each. Others are older."""

TEXT = ("run", "method", "subject", "case", "region", "shift", "metric", "curve")
"""Columns that stay as they were written: subject 007 is not subject 7, and a case may be called NA."""


class Scoring(NamedTuple):
    """The files of one evaluation; its suffix names the samples, and other data than the run's own."""

    scores: Path
    images: Path
    curves: Path
    masks: Path
    probabilities: Path
    measured: Path
    """Folder of what was measured so far, case by case."""
    prediction_cost: Path


def scoring(directory: Path, suffix: str = "") -> Scoring:
    """Where an evaluation puts its files."""
    return Scoring(
        scores=directory / f"scores{suffix}.csv",
        images=directory / f"images{suffix}.csv",
        curves=directory / f"curves{suffix}.csv",
        masks=directory / f"masks{suffix}",
        probabilities=directory / f"probabilities{suffix}",
        measured=directory / f"evaluation{suffix}",
        prediction_cost=directory / f"prediction_cost{suffix}.json",
    )


def check_format(directory: Path) -> None:
    """Refuse what is no run directory, or that of a later version, in one sentence."""
    if not (directory / RUN_FILE).is_file():
        raise UserError(
            f"{directory} is not a run directory (it has no {RUN_FILE}): give a folder made by segpl train."
        )
    file = directory / FACTS_FILE
    written = read_plain(file).get("format", 1) if file.is_file() else 1
    if written > FORMAT:
        raise UserError(
            f"{directory} was written by a later version of segpl (format {written}, this one knows {FORMAT}): "
            "update segpl."
        )


def read_split(directory: Path) -> dict[str, Any] | None:
    """The names of the cases by part, and the subjects; none where the run has no record of it."""
    file = directory / SPLIT_FILE
    return read_plain(file) if file.is_file() else None


def write_json(file: Path, contents: Any) -> None:
    """Write plain values as JSON that a person can read."""
    write_text(file, json.dumps(contents, indent=2) + "\n")


def read_plain(file: Path) -> Any:
    """What a JSON or YAML file holds; a file that is neither is the user's to put right."""
    try:
        text = file.read_text(encoding="utf-8")
        return json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{file} cannot be read ({reason}): write the run again.") from None


def read_table(file: Path) -> pd.DataFrame:
    """A table as it was written, number for number."""
    return pd.read_csv(
        file,
        dtype=dict.fromkeys(TEXT, str),
        keep_default_na=False,
        na_values={"value": [""], "labelled": [""]},
        float_precision="round_trip",
    )


def scored_as(run: Path) -> str | None:
    """How the files of a run's scoring end: plainly or, if it was only scored with samples, with the most of them."""
    if (run / SCORES_FILE).is_file():
        return ""
    found = [
        re.fullmatch(r"scores(-(\d+)-samples)\.csv", file.name)
        for file in run.glob("scores-*-samples.csv")
    ]
    known = [match for match in found if match]
    return max(known, key=lambda match: int(match[2]))[1] if known else None
