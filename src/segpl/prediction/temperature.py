"""The temperature that a prediction asks for by the word fit."""

import json
from pathlib import Path

from segpl.foundation.errors import UserError
from segpl.inference.temperature import TEMPERATURE_FILE, read_temperature
from segpl.settings.run import SPLIT_FILE


def fitted_temperature(directory: Path) -> float:
    """What `segpl evaluate` fitted on the run's validation subjects; an error where it has none."""
    if not (directory / TEMPERATURE_FILE).is_file() and _lacks_validation(directory):
        raise UserError(
            f"{directory} has no validation subjects to fit a temperature on: give a number (1 leaves the "
            "probabilities as they are), or train a run with --set validation=K."
        )
    return read_temperature(directory)


def _lacks_validation(directory: Path) -> bool:
    """Whether the run is known to have no validation subjects."""
    split = directory / SPLIT_FILE
    if not split.is_file():
        return False
    return not json.loads(split.read_text(encoding="utf-8"))["validation"]
