"""Building blocks of phantoms: a grid in mm, smooth random fields, ellipsoids, tubes and paint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

FAR = -99.0
"""The depth in mm of a voxel that is far from every tube."""

Vector = Sequence[float] | np.ndarray
"""Three numbers, in mm."""


class Phantom(NamedTuple):
    """One synthetic subject."""

    image: np.ndarray
    """[C, X, Y, Z] float32."""
    label: np.ndarray
    """[X, Y, Z] uint8."""
    spacing: tuple[float, float, float]
    """Millimetres."""


class Grid(NamedTuple):
    """The voxels of a phantom; the origin of its coordinates is the centre of the volume."""

    shape: tuple[int, int, int]
    spacing: tuple[float, float, float]
    """Millimetres."""

    @property
    def size(self) -> np.ndarray:
        """The extent of the volume along each axis in mm."""
        return np.array(self.shape) * self.spacing

    @property
    def centre(self) -> np.ndarray:
        """The centre of the volume in voxels."""
        return (np.array(self.shape) - 1) / 2

    def coordinates(self) -> tuple[np.ndarray, ...]:
        """x, y and z of all voxels in mm, each along its own axis and ready to broadcast."""
        axes = []
        for size, step in zip(self.shape, self.spacing, strict=True):
            centre = (size - 1) / 2
            axes.append((np.arange(size) - centre) * step)
        return tuple(np.meshgrid(*axes, indexing="ij", sparse=True))

    def voxels(self, points: np.ndarray) -> np.ndarray:
        """The index of the voxel that holds each point (mm)."""
        return np.rint(points / self.spacing + self.centre).astype(int)


def generator(seed: int, subject: int, stream: int) -> Generator:
    """The generator of one aspect of one subject, independent of all others."""
    return np.random.default_rng([seed, subject, stream])


def smooth_field(rng: Generator, grid: Grid, scale: float) -> np.ndarray:
    """A Gaussian random field of mean 0 and variance 1, smooth over `scale` mm."""
    weights = [_knot_weights(axis.ravel(), scale) for axis in grid.coordinates()]
    knots_per_axis = [axis_weights.shape[1] for axis_weights in weights]
    field = rng.standard_normal(knots_per_axis)
    for axis_weights in weights:
        # Contracts the first axis and appends the new one: after three axes the order is restored.
        field = np.tensordot(field, axis_weights, axes=(0, 1))
    return field.astype(np.float32)


def _knot_weights(positions: np.ndarray, scale: float) -> np.ndarray:
    """How much each knot counts at each position [positions, knots]; knots are `scale` mm apart.

    Rows have unit length, which keeps the variance at 1.
    """
    first_knot = positions[0] - 3 * scale
    last_knot = positions[-1] + 3 * scale
    knots = np.arange(first_knot, last_knot, scale)
    distances = (positions[:, None] - knots) / scale
    weights = np.exp(-0.5 * distances**2)
    return weights / np.linalg.norm(weights, axis=1, keepdims=True)


def direction(rng: Generator) -> np.ndarray:
    """A unit vector, uniform on the sphere."""
    vector = rng.standard_normal(3)
    return vector / np.linalg.norm(vector)


def ellipsoid(coordinates: tuple[np.ndarray, ...], centre: Vector, radii: Vector) -> np.ndarray:
    """Roughly how many mm each voxel lies inside an ellipsoid; negative outside."""
    x, y, z = coordinates
    square_x = ((x - centre[0]) / radii[0]) ** 2
    square_y = ((y - centre[1]) / radii[1]) ** 2
    square_z = ((z - centre[2]) / radii[2]) ** 2
    relative_distance = np.sqrt(square_x + square_y + square_z)
    return (1 - relative_distance) * float(np.min(radii))


def walk(
    rng: Generator,
    start: np.ndarray,
    heading: np.ndarray,
    length: float,
    wander: float,
    pace: float = 0.5,
) -> np.ndarray:
    """A random path [steps, 3] with `pace` mm per step.

    `wander` is how far the heading changes per mm.
    """
    steps = max(2, round(length / pace))
    turns = rng.normal(0, wander * np.sqrt(pace), (steps, 3))
    headings = heading + np.cumsum(turns, axis=0)
    headings /= np.linalg.norm(headings, axis=1, keepdims=True)
    return start + np.cumsum(pace * headings, axis=0)


def tubes(grid: Grid, points: np.ndarray, radii: np.ndarray, margin: float) -> np.ndarray:
    """How many mm each voxel lies inside balls around the points; negative outside.

    It is `FAR` where no ball is within `margin` mm. Balls along a path make a tube.
    """
    depth = np.full(grid.shape, FAR, np.float32)
    rounded_radii = np.ceil(2 * radii) / 2
    for radius in np.unique(rounded_radii):
        of_this_size = rounded_radii == radius
        reach = float(radius) + margin
        _add_balls(depth, grid, points[of_this_size], radii[of_this_size], reach)
    return depth


def _add_balls(
    depth: np.ndarray,
    grid: Grid,
    points: np.ndarray,
    radii: np.ndarray,
    reach: float,
) -> None:
    """Raise `depth` in place to that inside balls which reach at most `reach` mm.

    Builds the squared distances and the flat indices of the voxels around each point, axis by axis.
    """
    count = len(points)
    centres = grid.voxels(points)
    flat_indices = np.zeros((count, 1), int)
    squared_distances = np.zeros((count, 1), np.float32)
    for axis, (size, step) in enumerate(zip(grid.shape, grid.spacing, strict=True)):
        voxels_in_reach = int(np.ceil(reach / step))
        indices = centres[:, [axis]] + np.arange(-voxels_in_reach, voxels_in_reach + 1)
        positions = (indices - (size - 1) / 2) * step
        squares = (positions - points[:, [axis]]) ** 2
        # Voxels outside the volume are infinitely far away, so they change nothing.
        squares[(indices < 0) | (indices >= size)] = np.inf
        sums = squared_distances[:, :, None] + squares[:, None].astype(np.float32)
        squared_distances = sums.reshape(count, -1)
        inside = np.clip(indices, 0, size - 1)
        flat_indices = flat_indices[:, :, None] * size + inside[:, None]
        flat_indices = flat_indices.reshape(count, -1)
    depths = radii[:, None].astype(np.float32) - np.sqrt(squared_distances)
    np.maximum.at(depth.reshape(-1), flat_indices, depths)


def occupancy(depth: np.ndarray, edge: float) -> np.ndarray:
    """The filled share of each voxel: partial volume over `edge` mm around depth 0."""
    return np.clip(0.5 + depth / edge, 0, 1).astype(np.float32)


def paint(image: np.ndarray, share: np.ndarray, value: np.ndarray | float) -> None:
    """Blend a tissue into an image [C, X, Y, Z], in place, by its share of each voxel.

    `value` is one grey value for all channels, or one per channel.
    """
    by_channel = np.reshape(value, (-1, 1, 1, 1))
    image += share * (by_channel - image)
