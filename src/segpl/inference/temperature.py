"""Temperature scaling: confidence turned up or down without moving a mask, and the temperature that data ask for."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize_scalar
from torch import Tensor

from segpl.foundation.errors import UserError
from segpl.metrics.calibration import EPSILON
from segpl.rundir import TEMPERATURE_FILE, read_plain, read_split, write_json

LIMITS = 0.05, 20.0
"""A fitted temperature stays inside: beyond, the validation cases say nothing about it."""
EDGES = np.linspace(-17, 17, 2001)
"""Logits are counted in bins of 0.017, which changes no fit; 16-bit probabilities reach no further than 11.8."""


def tempered(p: Float[Tensor, "*shape"], temperature: float) -> Float[Tensor, "*shape"]:
    """sigmoid(logit / temperature): above 1 less confident, below 1 more; 1 changes nothing, bit for bit."""
    return p if temperature == 1 else (p.logit(eps=1e-7) / temperature).sigmoid()


def fit_temperature(
    predictions: Iterable[tuple[Float[Tensor, "K *space"], Bool[Tensor, "K *space"]]],
) -> dict[str, float]:
    """The one temperature at which truths are likeliest, and the likelihood before and after (negative log, nats)."""
    background, foreground = np.zeros(len(EDGES) - 1), np.zeros(len(EDGES) - 1)
    for p, truth in predictions:
        logits = p.logit(eps=EPSILON)
        foreground += np.histogram(logits[truth].numpy(), EDGES)[0]
        background += np.histogram(logits[~truth].numpy(), EDGES)[0]
    centres, voxels = (EDGES[1:] + EDGES[:-1]) / 2, foreground.sum() + background.sum()

    def loss(log_temperature: float) -> float:
        scaled = centres / np.exp(log_temperature)
        return float(
            (foreground @ np.logaddexp(0, -scaled) + background @ np.logaddexp(0, scaled)) / voxels
        )

    best = minimize_scalar(loss, bounds=np.log(LIMITS), method="bounded")
    return {
        "temperature": float(np.exp(best.x)),
        "nll_before": loss(0.0),
        "nll_after": float(best.fun),
    }


def save_temperature(directory: Path, fitted: dict[str, float]) -> None:
    """Keep it beside the weights: predictions may ask for it."""
    write_json(directory / TEMPERATURE_FILE, fitted)


def read_temperature(directory: Path) -> float:
    """The temperature that was fitted for a run."""
    file = directory / TEMPERATURE_FILE
    if not file.is_file():
        raise UserError(
            f"{file} does not exist: fit it with segpl evaluate {directory}, or give a number."
        )
    return float(read_plain(file)["temperature"])


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
    split = read_split(directory)
    return split is not None and not split["validation"]
