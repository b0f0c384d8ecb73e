"""Everything that the ranking needs to know about one scan."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from segpl.data.cases import Case, Region
from segpl.data.formats.image import is_placed, spacing
from segpl.data.scans import channels_of, read_scan
from segpl.foundation.files import file_name
from segpl.inference.levels import ENTROPY, HALF
from segpl.inference.predictor import MapOptions, Predictor, to_scan_grid
from segpl.inference.result import Prediction, prediction_of
from segpl.ranking.features import Features, recorded_features
from segpl.ranking.uncertainty import Levels, disagreement, uncertainty
from segpl.reporting.rank_sheet import Tile


class Assessment(NamedTuple):
    """The numbers of one scan."""

    uncertainty: float
    disagreement: float
    features: Features
    slice: int
    """The most uncertain slice, counted from 0 along the last axis."""
    missing: tuple[str, ...]
    """Regions whose mask is empty."""


def assess(
    predictor: Predictor,
    case: Case,
    samples: int,
) -> tuple[Assessment, Tile]:
    """Predict a scan as it is and in other views; return its numbers and its worst slice.

    Memory: that of `segpl predict`, or 30 bytes per voxel of the network's grid and channel while a
    view is made.
    """
    scan = read_scan(case.unlabelled())
    prepared = predictor.prepare(scan)
    x = prepared.x
    frame = prepared.frame
    regions = predictor.task.regions
    with recorded_features(predictor.networks) as features:
        maps = predictor.maps(x, MapOptions(samples))
    maps = maps.without_variance()
    inconsistency = disagreement(predictor, x, maps.mask_levels, samples)
    prediction = prediction_of(to_scan_grid(maps, frame), regions, frame)
    entropy, worst_slice = uncertainty(
        prediction.levels, prediction.mask_levels, spacing(prediction.affine)
    )
    assessment = Assessment(
        uncertainty=entropy,
        disagreement=inconsistency,
        features=features.mean(),
        slice=worst_slice,
        missing=_missing_regions(prediction.mask_levels, regions),
    )
    first_channel = channels_of(scan.images)[0]
    return assessment, _tile(first_channel, prediction, worst_slice)


def features_of(predictor: Predictor, case: Case) -> Features:
    """The features of a scan alone, from one prediction."""
    prepared = predictor.prepare(read_scan(case.unlabelled()))
    with recorded_features(predictor.networks) as features:
        predictor.maps(prepared.x, MapOptions())
    return features.mean()


def _missing_regions(mask_levels: Levels, regions: tuple[Region, ...]) -> tuple[str, ...]:
    missing = []
    for region, levels_of_region in zip(regions, mask_levels, strict=True):
        if levels_of_region.max() <= HALF:
            missing.append(region.name)
    return tuple(missing)


def _tile(
    channel: Shaped[np.ndarray, "X Y Z"],
    prediction: Prediction,
    z: int,
) -> Tile:
    """Slice `z` for display."""
    affine = prediction.affine
    entropy = ENTROPY[prediction.levels[..., z]]
    largest_entropy = entropy.max(0)
    width, height, _ = spacing(affine)
    return Tile(
        image=_for_display(channel[..., z], affine),
        mask=_for_display(prediction.mask[..., z], affine),
        entropy=_for_display(largest_entropy, affine),
        aspect=height / width,
    )


def _for_display(
    values: Shaped[np.ndarray, "X Y"],
    affine: Float[np.ndarray, "4 4"],
) -> Shaped[np.ndarray, "R C"]:
    """Rows and columns of a slice: anterior is at the top; pictures stay as they are."""
    rows = values.T
    y_points_up = is_placed(affine) and affine[1, 1] > 0
    return np.flipud(rows) if y_points_up else rows


def save_tile(folder: Path, name: str, tile: Tile) -> None:
    """Keep the tile of a scan on disk until it is known which scans are shown."""
    np.savez(_tile_file(folder, name), **tile._asdict())


def read_tile(folder: Path, name: str) -> Tile:
    """The tile that `save_tile` wrote for a scan."""
    with np.load(_tile_file(folder, name)) as arrays:
        return Tile(
            image=arrays["image"],
            mask=arrays["mask"],
            entropy=arrays["entropy"],
            aspect=float(arrays["aspect"]),
        )


def _tile_file(folder: Path, name: str) -> Path:
    return folder / f"{file_name(name)}.npz"
