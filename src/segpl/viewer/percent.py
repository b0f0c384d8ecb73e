"""Probabilities in whole per cent, for the page: one byte for each voxel and region.

A probability is rounded up, so that it exceeds a threshold of t per cent exactly where its stored
number exceeds t. The page moves the threshold by itself, and its mask is the mask of the server.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import nibabel
import numpy as np
from jaxtyping import Float64, Int64, UInt8, UInt16

from segpl.foundation.files import draft, write_text

FULL_LEVEL = 65535
"""The level of probability 1 in the files of `segpl predict`."""
STEPS = 100
HALF = STEPS // 2

Percent = UInt8[np.ndarray, "X Y Z"]

_LEVELS = np.arange(FULL_LEVEL + 1)
PERCENT_OF_LEVEL = ((_LEVELS * STEPS + FULL_LEVEL - 1) // FULL_LEVEL).astype(np.uint8)


@dataclass(frozen=True)
class Curve:
    """What the page needs to know of a region at every threshold."""

    voxels: Int64[np.ndarray, " 101"]
    """The number of voxels at each per cent."""
    probability: Float64[np.ndarray, " 101"]
    """The sum of their probabilities."""
    start: int
    """The threshold in per cent whose mask is that of the model."""

    def record(self) -> dict[str, object]:
        """The curve as JSON holds it."""
        return {
            "voxels": self.voxels.tolist(),
            "probability": self.probability.tolist(),
            "start": self.start,
        }


def curve_of(levels: UInt16[np.ndarray, "X Y Z"], mask_voxels: int) -> Curve:
    """The curve of a region; `mask_voxels` is the size of the model's own mask."""
    counts = np.bincount(levels.ravel(), minlength=FULL_LEVEL + 1)
    sums = counts * (_LEVELS / FULL_LEVEL)
    voxels = np.zeros(STEPS + 1, dtype=np.int64)
    probability = np.zeros(STEPS + 1)
    np.add.at(voxels, PERCENT_OF_LEVEL, counts)
    np.add.at(probability, PERCENT_OF_LEVEL, sums)
    return Curve(voxels, probability, _start(voxels, mask_voxels))


def _start(voxels: Int64[np.ndarray, " 101"], mask_voxels: int) -> int:
    """The threshold whose mask has the size of the model's; the one nearest to 1/2 of several."""
    above = voxels.sum() - np.cumsum(voxels)
    difference = np.abs(above - mask_voxels)
    best = np.flatnonzero(difference == difference.min())
    return int(best[np.abs(best - HALF).argmin()])


def region_file(folder: Path, number: int, region: int) -> Path:
    """The file of one region of the scan with this number in the list."""
    return folder / f"{number}-region-{region}.nii"


def curves_file(folder: Path, number: int) -> Path:
    """The curves of all regions. It is written last, so it means that the maps are there too."""
    return folder / f"{number}-curves.json"


def write_percent_maps(
    folder: Path, number: int, probability_file: Path, mask_voxels: list[int]
) -> None:
    """Write the map of each region, and the curves, from a file of `segpl predict`."""
    stored = nibabel.load(probability_file)
    levels = np.asanyarray(stored.dataobj.get_unscaled())
    regions = len(mask_voxels)
    shape = levels.shape[:-1] if regions > 1 else levels.shape
    x, y, z = (*shape, 1)[:3]
    levels = levels.reshape(x, y, z, regions, order="F")
    curves = []
    for region in range(regions):
        region_levels = levels[..., region]
        curves.append(curve_of(region_levels, mask_voxels[region]).record())
        header = stored.header.copy()
        header.set_data_dtype(np.uint8)
        image = nibabel.Nifti1Image(PERCENT_OF_LEVEL[region_levels], stored.affine, header)
        image.header.set_slope_inter(1, 0)
        with draft(region_file(folder, number, region)) as temporary:
            nibabel.save(image, temporary)
    write_text(curves_file(folder, number), json.dumps(curves))


def read_percent(file: Path) -> Percent:
    """The map of a region."""
    return np.asanyarray(nibabel.load(file).dataobj)
