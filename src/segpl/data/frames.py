"""Where a scan lies, and how its axes turn into those of the training images and back."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from nibabel import orientations

from segpl.data.formats import Image


def is_placed(affine: Float[np.ndarray, "4 4"]) -> bool:
    """Whether an image says where it lies. The identity is what arrays and pictures have, and says nothing."""
    return not np.allclose(affine, np.eye(4))


@dataclass(frozen=True, eq=False)
class Frame:
    """The grid of a scan as it was stored, and the orientation that a network wants to see it in."""

    shape: tuple[int, ...]
    affine: Float[np.ndarray, "4 4"]
    orientation: str | None
    """As in RAS; none leaves the axes as they are stored, and so does a scan that does not say where it lies."""
    header: Any = None
    """nibabel's, if the scan was NIfTI."""

    def turned(self, image: Image) -> Image:
        """The image with its axes as the network knows them: a view, no voxel is changed."""
        stored, wanted = self._axes()
        turn = orientations.ornt_transform(stored, wanted)
        affine = self.affine @ orientations.inv_ornt_aff(turn, self.shape)
        return Image(image.file, _turned(image.values, turn), affine)

    def back(self, values: Shaped[np.ndarray, "M x y z"]) -> Shaped[np.ndarray, "M X Y Z"]:
        """What the network made of a turned image, in the axes of the scan."""
        stored, wanted = self._axes()
        return _turned(values, orientations.ornt_transform(wanted, stored))

    def _axes(self) -> tuple[Float[np.ndarray, "3 2"], Float[np.ndarray, "3 2"]]:
        stored = orientations.io_orientation(self.affine)
        turns = self.orientation and is_placed(self.affine)
        return stored, orientations.axcodes2ornt(self.orientation) if turns else stored


def _turned(values: Shaped[np.ndarray, "M X Y Z"], turn: Float[np.ndarray, "3 2"]) -> Shaped[np.ndarray, "M x y z"]:
    return np.moveaxis(orientations.apply_orientation(np.moveaxis(values, 0, -1), turn), -1, 0)
