"""Temperature scaling: it changes the confidence of probabilities and never their mask."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize_scalar
from torch import Tensor

from segpl.foundation.errors import UserError
from segpl.metrics.calibration import EPSILON
from segpl.rundir import (
    TEMPERATURE_FILE,
    read_mapping,
    read_split,
    run_directories,
    write_json,
)

LIMITS = (0.05, 20.0)
"""Bounds of a fitted temperature: beyond them the validation cases hold no information on it."""
EDGES = np.linspace(-17, 17, 2001)
"""Edges of the bins in which logits are counted.

Bins of 0.017 are fine enough not to change a fit. The logits of 16-bit probabilities end at 11.8.
"""


def apply_temperature(p: Float[Tensor, "*shape"], temperature: float) -> Float[Tensor, "*shape"]:
    """sigmoid(logit(p) / temperature): above 1 less confident, below 1 more confident.

    A temperature of 1 returns p itself.
    """
    if temperature == 1:
        return p
    return (p.logit(eps=1e-7) / temperature).sigmoid()


def fit_temperature(
    predictions: Iterable[tuple[Float[Tensor, "K *space"], Bool[Tensor, "K *space"]]],
) -> dict[str, float]:
    """The temperature that maximises the likelihood of the truths, given pairs (p, truth).

    Also the mean negative log-likelihood per voxel, in nats, before and after.
    """
    background = np.zeros(len(EDGES) - 1)
    foreground = np.zeros(len(EDGES) - 1)
    for p, truth in predictions:
        logits = p.logit(eps=EPSILON)
        foreground += np.histogram(logits[truth].numpy(), EDGES)[0]
        background += np.histogram(logits[~truth].numpy(), EDGES)[0]
    centres = (EDGES[1:] + EDGES[:-1]) / 2
    voxels = foreground.sum() + background.sum()

    def negative_log_likelihood(log_temperature: float) -> float:
        logits = centres / np.exp(log_temperature)
        of_foreground = foreground @ np.logaddexp(0, -logits)
        of_background = background @ np.logaddexp(0, logits)
        return float((of_foreground + of_background) / voxels)

    best = minimize_scalar(negative_log_likelihood, bounds=np.log(LIMITS), method="bounded")
    return {
        "temperature": float(np.exp(best.x)),
        "nll_before": negative_log_likelihood(0.0),
        "nll_after": float(best.fun),
    }


def save_temperature(directory: Path, fitted: dict[str, float]) -> None:
    """Write the result of `fit_temperature` to the run directory."""
    write_json(directory / TEMPERATURE_FILE, fitted)


def read_temperature(directory: Path) -> float:
    """The temperature that was fitted for a run; an error where none was."""
    file = directory / TEMPERATURE_FILE
    if not file.is_file():
        raise UserError(
            f"{file} does not exist: fit it with segpl evaluate {directory}, or give a number."
        )
    temperature = read_mapping(file).get("temperature")
    if not isinstance(temperature, int | float) or not 0 < temperature < float("inf"):
        raise UserError(f"{file} holds no temperature above 0: fit it again with segpl evaluate.")
    return float(temperature)


def fitted_temperature(directory: Path) -> float:
    """The temperature of a run; an error that explains itself if the run cannot have one."""
    if len(run_directories(directory)) > 1:
        raise UserError(
            f"{directory} is a folder of runs, and a temperature is fitted for one run: "
            "give a number, or a single run."
        )
    is_fitted = (directory / TEMPERATURE_FILE).is_file()
    if not is_fitted and _lacks_validation(directory):
        raise UserError(
            f"{directory} has no validation subjects to fit a temperature on: give a number "
            "(1 leaves the probabilities as they are), or train a run with --set validation=K."
        )
    return read_temperature(directory)


def _lacks_validation(directory: Path) -> bool:
    """Whether the run's record says that it has no validation subjects."""
    split = read_split(directory)
    return split is not None and not split["validation"]
