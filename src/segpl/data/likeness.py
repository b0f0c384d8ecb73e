"""How much a scan looks like those that a network was trained on.

Training records the mean and standard deviation of a few statistics of its prepared scans: their
size, the distribution of their grey values and the roughness of their texture. A new scan is
unlike them if any of its statistics is too many standard deviations away. It says nothing about
scans that differ in other ways, such as an unusual anatomy.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

from segpl.foundation.named import validated
from segpl.rundir import STATISTICS_FILE, read_mapping, write_json

Statistics = dict[str, float]
"""The statistics of a scan by their names, which are shown to the user."""

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_VOXELS = 300_000
"""Voxels of a channel from which quantiles are computed."""
LONGEST_SIDE = 128
"""Sides of the block in the middle of a scan whose texture is measured."""
SMALLEST_DEVIATION = 0.1
"""Differences below this are never unusual, however alike the training scans are.

Sizes and textures are logarithms, so it is a tenth of their value; grey values have a standard
deviation of 1.
"""
LIMIT = 4.0
"""A scan with a statistic more standard deviations away is unlike the training scans.

`studies/flagged_scans.py` measures how many scans exceed it: see docs/uncertainty.md.
"""
FEWEST_SCANS = 5
"""Scans from which a standard deviation can be told."""


class Likeness(NamedTuple):
    """How far a scan is from the training scans."""

    distance: float
    """Standard deviations from their mean, of the most unusual statistic."""
    statistic: str
    """The name of that statistic."""

    @property
    def is_unlike(self) -> bool:
        """Whether the scan looks unlike the training scans."""
        return self.distance > LIMIT


@dataclass(frozen=True)
class TrainingStatistics:
    """The statistics of the scans that a run was trained on."""

    scans: int
    mean: Statistics
    standard_deviation: Statistics

    def likeness(self, statistics: Statistics) -> Likeness | None:
        """How far a scan is from the training scans; None if these were too few to tell."""
        if self.scans < FEWEST_SCANS:
            return None
        distances = {}
        for name, value in statistics.items():
            # The mean itself is uncertain: it was estimated from a few scans.
            of_scans = self.standard_deviation[name] * math.sqrt(1 + 1 / self.scans)
            scale = math.hypot(of_scans, SMALLEST_DEVIATION)
            distances[name] = abs(value - self.mean[name]) / scale
        most_unusual = max(distances, key=lambda name: distances[name])
        return Likeness(distances[most_unusual], most_unusual)


def scan_statistics(x: Float[Tensor, "C X Y Z"], channels: Sequence[str]) -> Statistics:
    """The statistics of a prepared scan."""
    statistics = {}
    for axis, size in zip("XYZ", x.shape[1:], strict=True):
        statistics[f"size along {axis}"] = math.log(size)
    for name, channel in zip(channels, x.numpy(), strict=True):
        statistics |= _grey_values(name, channel)
        statistics |= _texture(name, channel)
    return statistics


def _grey_values(name: str, channel: Float[np.ndarray, "X Y Z"]) -> Statistics:
    """Quantiles of the normalised grey values."""
    values = channel.reshape(-1)
    values = values[:: max(1, values.size // MOST_VOXELS)]
    quantiles = np.quantile(values, QUANTILES)
    statistics = {}
    for share, quantile in zip(QUANTILES, quantiles, strict=True):
        statistics[f"grey values of {name} ({share:.0%} quantile)"] = float(quantile)
    return statistics


def _texture(name: str, channel: Float[np.ndarray, "X Y Z"]) -> Statistics:
    """The logarithm of the mean difference between neighbours along each axis with neighbours."""
    block = _middle(channel)
    deviation = float(block.std()) + 1e-6
    statistics = {}
    for axis, letter in enumerate("XYZ"):
        roughness = deviation
        if block.shape[axis] > 1:
            roughness = float(np.abs(np.diff(block, axis=axis)).mean())
        statistics[f"texture of {name} along {letter}"] = math.log(roughness / deviation + 1e-3)
    return statistics


def _middle(channel: Float[np.ndarray, "X Y Z"]) -> Float[np.ndarray, "x y z"]:
    block = []
    for size in channel.shape:
        start = max(0, (size - LONGEST_SIDE) // 2)
        block.append(slice(start, start + LONGEST_SIDE))
    return channel[tuple(block)]


def summarise(scans: Iterable[Statistics]) -> TrainingStatistics:
    """The mean and standard deviation over scans; at least one."""
    tables = list(scans)
    mean = {}
    standard_deviation = {}
    for name in tables[0]:
        values = [table[name] for table in tables]
        mean[name] = float(np.mean(values))
        standard_deviation[name] = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return TrainingStatistics(len(tables), mean, standard_deviation)


def write_statistics(directory: Path, statistics: TrainingStatistics) -> None:
    """Write `statistics.json` of a run."""
    write_json(directory / STATISTICS_FILE, asdict(statistics))


def read_statistics(directory: Path) -> TrainingStatistics | None:
    """What training recorded; None for runs of versions that recorded nothing."""
    file = directory / STATISTICS_FILE
    if not file.is_file():
        return None
    return validated(TrainingStatistics, read_mapping(file), f"{file}: ")
