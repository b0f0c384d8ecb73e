"""What was found in one scan, in the geometry of that scan."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float32, Integer, UInt, UInt16

from segpl.data.cases import Region
from segpl.data.formats.image import spacing
from segpl.data.frames import Frame
from segpl.data.saving import save_nifti
from segpl.inference.levels import ENTROPY, FULL, HALF, packed, parts
from segpl.inference.numbers import Numbers, numbers
from segpl.inference.windows import fold


@dataclass(frozen=True, eq=False)
class Prediction:
    """A mask, the probabilities behind it, and how sure they are; K regions in the order of `regions`.

    Probabilities are held as 16-bit levels, and become floats when they are asked for.
    """

    mask: UInt[np.ndarray, "X Y Z"]
    """One label map in the values of the training data."""
    levels: UInt16[np.ndarray, "K X Y Z"]
    """Probabilities in steps of 1/65535, the mean of the samples."""
    spread: UInt16[np.ndarray, "K X Y Z"] | None
    """Their variance between the samples in steps of 1/4/65535; none without samples."""
    regions: tuple[Region, ...]
    frame: Frame

    @property
    def affine(self) -> Float[np.ndarray, "4 4"]:
        """From voxels to RAS+ millimetres: the scan's own."""
        return self.frame.affine

    @property
    def probability(self) -> Float32[np.ndarray, "K X Y Z"]:
        """How likely each voxel belongs to each region."""
        return self.levels * np.float32(1 / FULL)

    @property
    def uncertainty(self) -> Float32[np.ndarray, "K X Y Z"]:
        """The entropy of the probability in bits: 1 where both answers are equally likely, 0 where one is certain."""
        return ENTROPY.astype(np.float32)[self.levels]

    @property
    def variance(self) -> Float32[np.ndarray, "K X Y Z"] | None:
        """Between the samples, averaged over overlapping windows; at most 1/4."""
        return None if self.spread is None else self.spread * np.float32(0.25 / FULL)

    @cached_property
    def numbers(self) -> dict[str, Numbers]:
        """Volume, expected Dice and uncertainty of each region."""
        spreads = [None] * len(self.levels) if self.spread is None else self.spread
        found = zip(self.regions, self.levels, spreads, strict=True)
        return {
            region.name: numbers(levels, spread, spacing(self.affine))
            for region, levels, spread in found
        }

    @property
    def volumes_ml(self) -> dict[str, float]:
        """The volume of each region."""
        return {name: each.volume_ml for name, each in self.numbers.items()}

    def save(self, file: str | Path) -> None:
        """Write the mask as NIfTI."""
        save_nifti(Path(file), self.mask, self.frame)

    def save_probability(self, file: str | Path) -> None:
        """Write the probabilities as NIfTI, a volume per region."""
        save_nifti(Path(file), _stacked(self.levels), self.frame, 1 / FULL)

    def save_uncertainty(self, file: str | Path) -> None:
        """Write the entropy as NIfTI, in bits, a volume per region."""
        entropy = packed(torch.from_numpy(ENTROPY))[self.levels]
        save_nifti(Path(file), _stacked(entropy), self.frame, 1 / FULL)

    def save_variance(self, file: str | Path) -> None:
        """Write the variance between the samples as NIfTI, a volume per region; nothing without samples."""
        if self.spread is not None:
            save_nifti(Path(file), _stacked(self.spread), self.frame, 0.25 / FULL)


def prediction_of(
    maps: UInt16[np.ndarray, "M X Y Z"], regions: tuple[Region, ...], frame: Frame
) -> Prediction:
    """The prediction from maps on the scan's grid: levels of each region, then spreads if any."""
    levels = maps[: len(regions)]
    spread = maps[len(regions) :] if len(maps) > len(regions) else None
    return Prediction(label_map(levels, regions), levels, spread, regions, frame)


def label_map(
    levels: UInt16[np.ndarray, "K X Y Z"], regions: tuple[Region, ...]
) -> Integer[np.ndarray, "X Y Z"]:
    """One label map in the values of the training data, made slab by slab."""
    slabs = []
    for part in parts(levels.shape[1:]):
        found = torch.from_numpy(levels[..., part] > HALF)
        slabs.append(fold(found, regions))
    return np.concatenate(slabs, axis=2)


def _stacked(maps: UInt16[np.ndarray, "K X Y Z"]) -> UInt16[np.ndarray, "X Y Z *K"]:
    return maps[0] if len(maps) == 1 else np.moveaxis(maps, 0, -1)
