"""The grid of a scan as stored, and its reorientation for a network and back."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from nibabel import orientations

from segpl.data.formats.image import Image, is_placed


@dataclass(frozen=True, eq=False)
class Frame:
    """The grid of a scan as stored, and the orientation in which the network sees it."""

    shape: tuple[int, ...]
    affine: Float[np.ndarray, "4 4"]
    orientation: str | None
    """As in RAS. None keeps the axes as stored, and so does a scan without a known orientation."""
    header: Any = None
    """nibabel's, if the scan was NIfTI."""

    def reoriented(self, image: Image) -> Image:
        """The image in the network's orientation: a view, no voxel is changed."""
        transform = self._to_network()
        affine = self.affine @ orientations.inv_ornt_aff(transform, self.shape)
        return Image(image.file, reorient(image.values, transform), affine)

    @property
    def reoriented_shape(self) -> tuple[int, int, int]:
        """The shape of the scan in the network's orientation, before resampling."""
        sizes = [0, 0, 0]
        new_axes = self._to_network()[:, 0]
        for size, new_axis in zip(self.shape, new_axes, strict=True):
            sizes[int(new_axis)] = size
        x, y, z = sizes
        return x, y, z

    def restored(self, values: Shaped[np.ndarray, "M x y z"]) -> Shaped[np.ndarray, "M X Y Z"]:
        """Values in the network's orientation, with the axes of the scan."""
        transform = orientations.ornt_transform(self._wanted_axes(), self._stored_axes())
        return reorient(values, transform)

    def _to_network(self) -> Float[np.ndarray, "3 2"]:
        """The transform from the axes as stored to those of the network, in nibabel's notation."""
        return orientations.ornt_transform(self._stored_axes(), self._wanted_axes())

    def _stored_axes(self) -> Float[np.ndarray, "3 2"]:
        """The orientation of the scan as stored, in nibabel's notation."""
        return orientations.io_orientation(self.affine)

    def _wanted_axes(self) -> Float[np.ndarray, "3 2"]:
        """The network's orientation, in nibabel's notation."""
        if self.orientation and is_placed(self.affine):
            return orientations.axcodes2ornt(self.orientation)
        return self._stored_axes()


def reorient(
    values: Shaped[np.ndarray, "M X Y Z"],
    transform: Float[np.ndarray, "3 2"],
) -> Shaped[np.ndarray, "M x y z"]:
    """Swap and flip the axes as nibabel's `transform` says; the first axis stays."""
    first_axis_last = np.moveaxis(values, 0, -1)
    reoriented = orientations.apply_orientation(first_axis_last, transform)
    return np.moveaxis(reoriented, -1, 0)
