"""The prediction for one scan, in the geometry of that scan."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float32, UInt, UInt16

from segpl.data.cases import Region
from segpl.data.formats.image import spacing
from segpl.data.frames import Frame
from segpl.data.saving import save_nifti
from segpl.inference.label_map import label_map
from segpl.inference.levels import ENTROPY, FULL, LevelMaps, to_levels
from segpl.inference.maps import ScanMaps
from segpl.inference.numbers import RegionNumbers, region_numbers

FloatMaps = Float32[np.ndarray, "K X Y Z"]


@dataclass(frozen=True, eq=False)
class Prediction:
    """A mask with its probabilities and their uncertainty; K regions in the order of `regions`.

    Probabilities are held as 16-bit levels. The float maps are computed on access.
    """

    mask: UInt[np.ndarray, "X Y Z"]
    """One label map in the values of the training data."""
    levels: LevelMaps
    """Probabilities in steps of 1/65535."""
    mask_levels: LevelMaps
    """Exceed 1/2 inside the mask of each region: the probabilities, or p shifted by thresholds."""
    variance_levels: LevelMaps | None
    """Variance between the samples in steps of 1/4/65535; none without samples."""
    regions: tuple[Region, ...]
    frame: Frame

    @property
    def affine(self) -> Float[np.ndarray, "4 4"]:
        """From voxels to RAS+ millimetres: the scan's own."""
        return self.frame.affine

    @property
    def probability(self) -> FloatMaps:
        """The probability of each region at each voxel."""
        return self.levels * np.float32(1 / FULL)

    @property
    def uncertainty(self) -> FloatMaps:
        """The entropy of the probability in bits: 1 at p = 1/2, 0 at p = 0 and p = 1."""
        return ENTROPY.astype(np.float32)[self.levels]

    @property
    def variance(self) -> FloatMaps | None:
        """Between the samples, averaged over overlapping windows; at most 1/4."""
        if self.variance_levels is None:
            return None
        return self.variance_levels * np.float32(0.25 / FULL)

    @cached_property
    def numbers(self) -> dict[str, RegionNumbers]:
        """Volume, expected Dice and uncertainty of each region, by its name."""
        numbers = {}
        for index, region in enumerate(self.regions):
            variance_levels = None
            if self.variance_levels is not None:
                variance_levels = self.variance_levels[index]
            numbers[region.name] = region_numbers(
                self.levels[index],
                self.mask_levels[index],
                variance_levels,
                spacing(self.affine),
            )
        return numbers

    @property
    def volumes_ml(self) -> dict[str, float]:
        """The volume of each region, by its name."""
        return {name: numbers.volume_ml for name, numbers in self.numbers.items()}

    def save(self, file: str | Path) -> None:
        """Write the mask as NIfTI."""
        save_nifti(Path(file), self.mask, self.frame)

    def save_probability(self, file: str | Path) -> None:
        """Write the probabilities as NIfTI, a volume per region."""
        save_nifti(Path(file), _regions_last(self.levels), self.frame, 1 / FULL)

    def save_uncertainty(self, file: str | Path) -> None:
        """Write the entropy as NIfTI, in bits, a volume per region."""
        level_of_entropy = to_levels(torch.from_numpy(ENTROPY))
        entropy = level_of_entropy[self.levels]
        save_nifti(Path(file), _regions_last(entropy), self.frame, 1 / FULL)

    def save_variance(self, file: str | Path) -> None:
        """Write the variance between the samples as NIfTI, a volume per region.

        Without samples no file is written.
        """
        if self.variance_levels is not None:
            save_nifti(Path(file), _regions_last(self.variance_levels), self.frame, 0.25 / FULL)


def prediction_of(
    maps: ScanMaps,
    regions: tuple[Region, ...],
    frame: Frame,
) -> Prediction:
    """The prediction from maps on the scan's grid."""
    return Prediction(
        mask=label_map(maps.mask_levels, regions),
        levels=maps.probability(),
        mask_levels=maps.mask_levels,
        variance_levels=maps.variance_levels,
        regions=regions,
        frame=frame,
    )


def _regions_last(maps: LevelMaps) -> UInt16[np.ndarray, "X Y Z *M"]:
    """The maps as NIfTI stores them; a single region is a plain volume."""
    if len(maps) == 1:
        return maps[0]
    return np.moveaxis(maps, 0, -1)
