"""What every phantom is drawn from: a grid in millimetres, smooth random fields, ellipsoids, tubes and soft paint."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

FAR = -99.0  # the depth of a voxel that is nowhere near a tube


class Phantom(NamedTuple):
    """One made-up subject."""

    image: np.ndarray  # [C, X, Y, Z] float32
    label: np.ndarray  # [X, Y, Z] uint8
    spacing: tuple[float, float, float]


class Grid(NamedTuple):
    """The voxels of a phantom; its origin, in millimetres, is the centre of the volume."""

    shape: tuple[int, int, int]
    spacing: tuple[float, float, float]

    @property
    def size(self) -> np.ndarray:
        """The extent of the volume along each axis in millimetres."""
        return np.array(self.shape) * self.spacing

    def coordinates(self) -> tuple[np.ndarray, ...]:
        """x, y and z of every voxel in millimetres, each along its own axis and ready to broadcast."""
        axes = [
            (np.arange(n) - (n - 1) / 2) * width
            for n, width in zip(self.shape, self.spacing, strict=True)
        ]
        return tuple(np.meshgrid(*axes, indexing="ij", sparse=True))

    def voxels(self, points: np.ndarray) -> np.ndarray:
        """The index of the voxel that holds each point."""
        return np.rint(points / self.spacing + (np.array(self.shape) - 1) / 2).astype(int)


def generator(seed: int, subject: int, stream: int) -> np.random.Generator:
    """The random numbers of one aspect of one subject, whatever is drawn for the others."""
    return np.random.default_rng([seed, subject, stream])


def smooth_field(rng: np.random.Generator, grid: Grid, scale: float) -> np.ndarray:
    """A Gaussian random field of mean 0 and variance 1 at every voxel, smooth over `scale` millimetres."""
    weights = [_spread(axis.ravel(), scale) for axis in grid.coordinates()]
    field = rng.standard_normal([w.shape[1] for w in weights])
    for w in (
        weights
    ):  # contracts the first axis and appends the new one: after three turns the order is back
        field = np.tensordot(field, w, axes=(0, 1))
    return field.astype(np.float32)


def _spread(positions: np.ndarray, scale: float) -> np.ndarray:
    """How much each knot, `scale` apart, counts at each position: rows of unit length keep the variance at 1."""
    knots = np.arange(positions[0] - 3 * scale, positions[-1] + 3 * scale, scale)
    weights = np.exp(-0.5 * ((positions[:, None] - knots) / scale) ** 2)
    return weights / np.linalg.norm(weights, axis=1, keepdims=True)


def direction(rng: np.random.Generator) -> np.ndarray:
    """A unit vector, uniform on the sphere."""
    vector = rng.standard_normal(3)
    return vector / np.linalg.norm(vector)


def ellipsoid(where: tuple[np.ndarray, ...], centre: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Roughly how many millimetres each voxel lies inside an ellipsoid; negative outside."""
    squares = [((x - c) / r) ** 2 for x, c, r in zip(where, centre, radii, strict=True)]
    return (1 - np.sqrt(squares[0] + squares[1] + squares[2])) * float(np.min(radii))


def walk(
    rng: np.random.Generator,
    start: np.ndarray,
    heading: np.ndarray,
    length: float,
    wander: float,
    pace: float = 0.5,
) -> np.ndarray:
    """A meandering path [steps, 3] of `pace` millimetres a step; `wander` is how far it turns in a millimetre."""
    steps = max(2, round(length / pace))
    headings = heading + np.cumsum(rng.normal(0, wander * np.sqrt(pace), (steps, 3)), axis=0)
    headings /= np.linalg.norm(headings, axis=1, keepdims=True)
    return start + np.cumsum(pace * headings, axis=0)


def tubes(grid: Grid, points: np.ndarray, radii: np.ndarray, margin: float) -> np.ndarray:
    """How many millimetres each voxel lies inside balls along some paths; FAR where further than `margin` away."""
    depth = np.full(grid.shape, FAR, np.float32)
    sizes = np.ceil(2 * radii) / 2
    for size in np.unique(sizes):
        _stamp(depth, grid, points[sizes == size], radii[sizes == size], reach=float(size) + margin)
    return depth


def _stamp(
    depth: np.ndarray, grid: Grid, points: np.ndarray, radii: np.ndarray, reach: float
) -> None:
    """Deepen `depth`, in place, by balls that all fit into the same neighbourhood of their centres."""
    middle, flat = grid.voxels(points), np.zeros((len(points), 1), int)
    squares = np.zeros((len(points), 1), np.float32)
    for axis, (n, width) in enumerate(zip(grid.shape, grid.spacing, strict=True)):
        near = int(np.ceil(reach / width))
        at = middle[:, [axis]] + np.arange(-near, near + 1)
        square = ((at - (n - 1) / 2) * width - points[:, [axis]]) ** 2
        square[(at < 0) | (at >= n)] = np.inf  # infinitely far away, so that it changes nothing
        squares = (squares[:, :, None] + square[:, None].astype(np.float32)).reshape(
            len(points), -1
        )
        flat = (flat[:, :, None] * n + np.clip(at, 0, n - 1)[:, None]).reshape(len(points), -1)
    np.maximum.at(depth.reshape(-1), flat, radii[:, None].astype(np.float32) - np.sqrt(squares))


def occupancy(depth: np.ndarray, edge: float) -> np.ndarray:
    """The share of each voxel that is filled: partial volume over `edge` millimetres around depth 0."""
    return np.clip(0.5 + depth / edge, 0, 1).astype(np.float32)


def paint(image: np.ndarray, share: np.ndarray, value: np.ndarray | float) -> None:
    """Lay a tissue over an image [C, X, Y, Z], in place, as far as it fills each voxel."""
    image += share * (np.reshape(value, (-1, 1, 1, 1)) - image)
