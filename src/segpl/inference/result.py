"""The prediction for one scan, in the geometry of that scan."""

import math
from collections.abc import Sequence
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
from segpl.foundation.html import html_picture, html_table
from segpl.inference.label_map import label_map
from segpl.inference.levels import ENTROPY, FULL, LevelMaps, to_levels
from segpl.inference.maps import ScanMaps
from segpl.inference.numbers import RegionNumbers, region_numbers
from segpl.inference.pictures import Picture, Slice, draw_overview, png_bytes

FloatMaps = Float32[np.ndarray, "K X Y Z"]


@dataclass(frozen=True, eq=False, repr=False)
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
    slices: tuple[Slice, ...] = ()
    """Those of the overview picture; none if it was not asked for."""

    def __repr__(self) -> str:
        shape = " x ".join(str(size) for size in self.mask.shape)
        volumes = [f"{name} {volume:.3g} ml" for name, volume in self.volumes_ml.items()]
        return f"<Prediction of {shape} voxels: {', '.join(volumes)}>"

    def picture(self) -> Picture:
        """An overview: a few slices with the outlines of the regions."""
        return draw_overview(self.slices, self.regions)

    def _repr_html_(self) -> str:
        """The overview and the numbers, for a notebook."""
        rows = []
        for name, numbers in self.numbers.items():
            dice = "–" if math.isnan(numbers.expected_dice) else f"{numbers.expected_dice:.2f}"
            interval = f"{numbers.volume_low_ml:.3g} to {numbers.volume_high_ml:.3g}"
            rows.append([name, dice, f"{numbers.volume_ml:.3g}", interval])
        titles = ["region", "expected Dice", "volume, ml", "90 % interval, ml"]
        picture = html_picture(png_bytes(self.picture())) if self.slices else ""
        return picture + html_table(titles, rows)

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
    slices: Sequence[Slice] = (),
) -> Prediction:
    """The prediction from maps on the scan's grid, with the slices of its overview picture."""
    return Prediction(
        mask=label_map(maps.mask_levels, regions),
        levels=maps.probability(),
        mask_levels=maps.mask_levels,
        variance_levels=maps.variance_levels,
        regions=regions,
        frame=frame,
        slices=tuple(slices),
    )


def _regions_last(maps: LevelMaps) -> UInt16[np.ndarray, "X Y Z *M"]:
    """The maps as NIfTI stores them; a single region is a plain volume."""
    if len(maps) == 1:
        return maps[0]
    return np.moveaxis(maps, 0, -1)
