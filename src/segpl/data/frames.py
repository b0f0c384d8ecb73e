"""The grid of a scan as stored; its reorientation and crop for a network, and the way back."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from nibabel import orientations

from segpl.data.formats.image import Image, is_placed, spacing


@dataclass(frozen=True, eq=False)
class Frame:
    """The grid of a scan as stored, and the orientation and part that the network sees of it."""

    shape: tuple[int, ...]
    affine: Float[np.ndarray, "4 4"]
    orientation: str | None
    """As in RAS. None keeps the axes as stored, and so does a scan without a known orientation."""
    header: Any = None
    """nibabel's, if the scan was NIfTI."""
    centre_crop: tuple[int, ...] | None = None
    """Voxels of the middle part that the network sees, along its first axes; None for all."""

    def reoriented(self, image: Image) -> Image:
        """The image in the network's orientation, cropped: a view, no voxel is changed."""
        transform = self._to_network()
        affine = self.affine @ orientations.inv_ornt_aff(transform, self.shape)
        values = reorient(image.values, transform)
        box = self._box()
        shift = np.eye(4)
        shift[:3, 3] = [side.start for side in box]
        return Image(image.file, values[(slice(None), *box)], affine @ shift)

    @property
    def reoriented_shape(self) -> tuple[int, int, int]:
        """The shape of the cropped scan in the network's orientation, before resampling."""
        x, y, z = [side.stop - side.start for side in self._box()]
        return x, y, z

    @property
    def reoriented_spacing(self) -> tuple[float, float, float]:
        """The size of a voxel in mm in the network's orientation, before resampling."""
        sizes = [0.0, 0.0, 0.0]
        new_axes = self._to_network()[:, 0]
        for size, new_axis in zip(spacing(self.affine), new_axes, strict=True):
            sizes[int(new_axis)] = size
        x, y, z = sizes
        return x, y, z

    def restored(self, values: Shaped[np.ndarray, "M x y z"]) -> Shaped[np.ndarray, "M X Y Z"]:
        """Values in the network's orientation, with the axes of the scan; 0 outside the crop."""
        box = self._box()
        whole_shape = self._whole_shape()
        if values.shape[1:] != whole_shape:
            whole = np.zeros((len(values), *whole_shape), values.dtype)
            whole[(slice(None), *box)] = values
            values = whole
        transform = orientations.ornt_transform(self._wanted_axes(), self._stored_axes())
        return reorient(values, transform)

    def _whole_shape(self) -> tuple[int, ...]:
        """The shape of the scan in the network's orientation, before it is cropped."""
        sizes = [0, 0, 0]
        new_axes = self._to_network()[:, 0]
        for size, new_axis in zip(self.shape, new_axes, strict=True):
            sizes[int(new_axis)] = size
        return tuple(sizes)

    def _box(self) -> list[slice]:
        """The part that the network sees; an axis shorter than the crop is seen as a whole."""
        whole_shape = self._whole_shape()
        crop = self.centre_crop or ()
        box = []
        for axis, size in enumerate(whole_shape):
            length = min(crop[axis], size) if axis < len(crop) else size
            start = (size - length) // 2
            box.append(slice(start, start + length))
        return box

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
