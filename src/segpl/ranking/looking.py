"""What is to be known about one scan before it can be ranked."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from segpl.data.cases import Case
from segpl.data.formats.image import is_placed, spacing
from segpl.data.preparation import channels_of, read
from segpl.foundation.files import file_name
from segpl.inference.levels import ENTROPY, HALF
from segpl.inference.predictor import Predictor, Wanted, restored
from segpl.inference.result import Prediction, prediction_of
from segpl.ranking.doubt import disagreement, uncertainty
from segpl.ranking.features import listening
from segpl.reporting.rank_sheet import Tile


class Look(NamedTuple):
    """The numbers of one scan."""

    uncertainty: float
    disagreement: float
    features: Float[np.ndarray, " D"]
    slice: int
    missing: tuple[str, ...]
    """Regions that were not found."""


def look(predictor: Predictor, case: Case, samples: int) -> tuple[Look, Tile]:
    """Predict a scan, and again from other views; its numbers, and a picture of its worst slice.

    Memory: that of `segpl predict`, or 30 bytes for each voxel of the network's grid and channel while it is turned.
    """
    scan = read(case.unlabelled())
    x, _, frame = predictor.prepare(scan)
    regions = predictor.task.regions
    with listening(predictor.model) as heard:
        levels = predictor.maps(x, Wanted(samples))[: len(regions)]
    unlike_itself = disagreement(predictor, x, levels, samples)
    found = prediction_of(restored(levels, frame), regions, frame)
    unsure, worst = uncertainty(found.levels, spacing(found.affine))
    missing = tuple(
        region.name for region, p in zip(regions, found.levels, strict=True) if p.max() <= HALF
    )
    numbers = Look(unsure, unlike_itself, heard.features(), worst, missing)
    return numbers, _tile(channels_of(scan.images)[0], found, worst)


def features_of(predictor: Predictor, case: Case) -> Float[np.ndarray, " D"]:
    """What the network makes of a scan, without its doubts."""
    prepared = predictor.prepare(read(case.unlabelled()))
    with listening(predictor.model) as heard:
        predictor.maps(prepared.x, Wanted())
    return heard.features()


def _tile(channel: Shaped[np.ndarray, "X Y Z"], found: Prediction, worst: int) -> Tile:
    """The slice as it is looked at: rows from the front, or from the top of a picture."""
    upright = is_placed(found.affine) and found.affine[1, 1] > 0

    def plane(values: np.ndarray) -> np.ndarray:
        return np.flipud(values.T) if upright else values.T

    x, y, _ = spacing(found.affine)
    entropy = ENTROPY[found.levels[..., worst]].max(0)
    return Tile(plane(channel[..., worst]), plane(found.mask[..., worst]), plane(entropy), y / x)


def save_tile(drafts: Path, name: str, tile: Tile) -> None:
    """Put a picture aside: which ones are shown is known when all scans have been seen."""
    np.savez(drafts / f"{file_name(name)}.npz", **tile._asdict())


def read_tile(drafts: Path, name: str) -> Tile:
    """The picture of a scan."""
    with np.load(drafts / f"{file_name(name)}.npz") as arrays:
        return Tile(arrays["image"], arrays["mask"], arrays["entropy"], float(arrays["aspect"]))
