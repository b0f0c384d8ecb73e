"""Where a scan lies: its grid as stored, and the orientation that a network wants to see."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from nibabel import orientations

from segpl.data.formats.image import Image, is_placed


@dataclass(frozen=True, eq=False)
class Frame:
    """The grid of a scan as it was stored, and the orientation that a network wants to see it in."""

    shape: tuple[int, ...]
    affine: Float[np.ndarray, "4 4"]
    orientation: str | None
    """As in RAS. None keeps the axes as stored, as does a scan that does not say where it lies."""
    header: Any = None
    """nibabel's, if the scan was NIfTI."""

    def reoriented(self, image: Image) -> Image:
        """The image with its axes as the network knows them: a view, no voxel is changed."""
        stored, wanted = self._axes()
        turn = orientations.ornt_transform(stored, wanted)
        affine = self.affine @ orientations.inv_ornt_aff(turn, self.shape)
        return Image(image.file, reorient(image.values, turn), affine)

    @property
    def reoriented_shape(self) -> tuple[int, int, int]:
        """The shape of the scan in the network's orientation, before resampling."""
        stored, wanted = self._axes()
        sizes = [0, 0, 0]
        for size, (axis, _) in zip(
            self.shape, orientations.ornt_transform(stored, wanted), strict=True
        ):
            sizes[int(axis)] = size
        x, y, z = sizes
        return x, y, z

    def restored(self, values: Shaped[np.ndarray, "M x y z"]) -> Shaped[np.ndarray, "M X Y Z"]:
        """What the network made of a reoriented image, in the axes of the scan."""
        stored, wanted = self._axes()
        turn = orientations.ornt_transform(wanted, stored)
        return reorient(values, turn)

    def _axes(self) -> tuple[Float[np.ndarray, "3 2"], Float[np.ndarray, "3 2"]]:
        """The orientation as stored and the one that is wanted, as nibabel writes them."""
        stored = orientations.io_orientation(self.affine)
        if self.orientation and is_placed(self.affine):
            return stored, orientations.axcodes2ornt(self.orientation)
        return stored, stored


def reorient(
    values: Shaped[np.ndarray, "M X Y Z"], turn: Float[np.ndarray, "3 2"]
) -> Shaped[np.ndarray, "M x y z"]:
    """Axes swapped and flipped as nibabel's `turn` says; the first axis stays."""
    last = np.moveaxis(values, 0, -1)
    return np.moveaxis(orientations.apply_orientation(last, turn), -1, 0)
