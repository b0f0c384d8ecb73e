"""The plain files of a run directory: their names, and how they are read. No torch."""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from segpl.foundation.errors import UserError

LOG_FILE = "log.csv"
"""Losses and the like, step by step."""
COST_FILE = "cost.json"
"""What a training cost: parameters, operations, seconds, memory."""
FACTS_FILE = "facts.json"
"""What training recorded for the report: see `segpl.training.facts`."""

TEXT = ("run", "method", "subject", "case", "region", "shift", "metric", "curve")
"""Columns that stay as they were written: subject 007 is not subject 7, and a case may be called NA."""

RUNS_FILE = "runs.json"
"""What a study's runs are called, and the method and budget that each belongs to: others in its folder are older."""


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
    if (run / "scores.csv").is_file():
        return ""
    found = [re.fullmatch(r"scores(-(\d+)-samples)\.csv", file.name) for file in run.glob("scores-*-samples.csv")]
    known = [match for match in found if match]
    return max(known, key=lambda match: int(match[2]))[1] if known else None
