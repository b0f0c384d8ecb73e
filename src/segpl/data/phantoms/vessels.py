"""Lung vessels in CT: trees among airways, nodules and fissures, beside the chest wall."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from segpl.data.phantoms.primitives import (
    Grid,
    Phantom,
    direction,
    generator,
    occupancy,
    paint,
    smooth_field,
    tubes,
    walk,
)

GRID = Grid((96, 96, 48), (0.8, 0.8, 1.0))
VOXEL = 0.8
"""Width of a voxel in mm."""
THINNEST = 0.4
"""Smallest radius in mm: a vessel one voxel wide."""
MOST_LEVELS = 11
"""A vessel divides at most this many times."""


class Branch(NamedTuple):
    """A vessel between two points of division."""

    points: np.ndarray
    """[N, 3] in mm."""
    radii: np.ndarray
    """At each point, in mm."""


class Structure(NamedTuple):
    """Something in the lung that is not a vessel."""

    depth: np.ndarray
    """How many mm each voxel lies inside; negative outside."""
    hounsfield: float


def draw(seed: int, subject: int) -> Phantom:
    """One subject. It depends on these two numbers only."""
    anatomy = generator(seed, subject, 3)
    distractors = generator(seed, subject, 4)
    scanner = generator(seed, subject, 5)
    wall = chest_wall(anatomy)
    blood = np.minimum(vasculature(anatomy), -wall)
    tissue = parenchyma(distractors)
    for structure in other_structures(distractors, wall):
        paint(tissue, occupancy(structure.depth, VOXEL), structure.hounsfield)
    paint(tissue, occupancy(blood, VOXEL), anatomy.uniform(-30, 90))
    image = acquire(scanner, tissue[0])
    label = (blood > 0).astype(np.uint8)
    if anatomy.choice([-1, 1]) == -1:  # a left or a right lung
        image = image[::-1].copy()
        label = label[::-1]
    return Phantom(image[None], label, GRID.spacing)


def chest_wall(rng: Generator) -> np.ndarray:
    """How many mm each voxel lies inside the soft tissue that curves along one side."""
    x, y, z = GRID.coordinates()
    curvature = rng.uniform(0.02, 0.08)
    middle = rng.uniform(-20, 20)
    bulge = curvature * (y - middle) ** 2 / 10
    distance = rng.uniform(30, 36)
    roughness = 0.5 * smooth_field(rng, GRID, 12)
    return x - distance + bulge + 0 * z + roughness


def vasculature(rng: Generator) -> np.ndarray:
    """How many mm each voxel lies inside one of several vessel trees."""
    branches: list[Branch] = []
    for _ in range(rng.integers(9, 15)):
        start, heading = entrance(rng)
        radius = rng.uniform(1.9, 2.8)
        branches += grow_tree(rng, start, heading, radius, THINNEST)
    points, radii = points_in_volume(branches)
    depth = tubes(GRID, points, radii, margin=VOXEL / 2)
    # The thinnest vessels pass between voxel centres, so voxels on a centreline are set to vessel.
    i, j, k = GRID.voxels(points).T
    depth[i, j, k] = np.maximum(depth[i, j, k], 0.01)
    return depth


def entrance(rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Where a tree enters, in mm, and its heading: from the heart, above or below to the wall."""
    half = GRID.size / 2
    y, z = rng.uniform(-0.8, 0.8, 2)
    relative_start = [-1, y, z]
    if rng.random() < 0.4:
        x = rng.uniform(-0.8, 0.2)
        y = rng.choice([-1, 1])
        z = rng.uniform(-0.8, 0.8)
        relative_start = [x, y, z]
    start = np.array(relative_start) * half
    target = np.array([0.3 * half[0], 0, 0])
    heading = target - start
    return start, heading / np.linalg.norm(heading)


def grow_tree(
    rng: Generator,
    start: np.ndarray,
    heading: np.ndarray,
    radius: float,
    thinnest: float,
    level: int = 0,
) -> list[Branch]:
    """A vessel and, recursively, the two that it divides into.

    The cubes of their radii add up to that of its own (Murray's law).
    """
    length = radius * rng.uniform(3, 8) + 5
    path = walk(rng, start, heading, length, wander=0.12, pace=max(0.4, radius / 3))
    end = path[-1]
    end_radius = 0.92 * radius
    radii = np.linspace(radius, end_radius, len(path))
    tree = [Branch(path, np.maximum(radii, thinnest))]
    has_left_volume = (np.abs(end) > GRID.size / 2 + 2).any()
    if radius < thinnest or level > MOST_LEVELS or has_left_volume:
        return tree

    onward = end - path[0]
    onward = onward / np.linalg.norm(onward)
    share = rng.uniform(0.1, 0.5)
    sideways = direction(rng)
    small_heading = onward + 0.9 * sideways
    small_radius = end_radius * share ** (1 / 3)
    tree += grow_tree(rng, end, small_heading, small_radius, thinnest, level + 1)
    large_heading = onward + -0.9 * share * sideways
    large_radius = end_radius * (1 - share) ** (1 / 3)
    tree += grow_tree(rng, end, large_heading, large_radius, thinnest, level + 1)
    return tree


def points_in_volume(branches: list[Branch]) -> tuple[np.ndarray, np.ndarray]:
    """All points of the branches that lie in the volume, and their radii."""
    points = np.concatenate([branch.points for branch in branches])
    radii = np.concatenate([branch.radii for branch in branches])
    voxels = GRID.voxels(points)
    is_inside = ((voxels >= 0) & (voxels < GRID.shape)).all(axis=1)
    return points[is_inside], radii[is_inside]


def parenchyma(rng: Generator) -> np.ndarray:
    """Aerated lung [1, X, Y, Z] in Hounsfield units: denser at the back, mottled at two scales."""
    _, y, _ = GRID.coordinates()
    fine_mottle = rng.uniform(10, 35) * smooth_field(rng, GRID, 2)
    coarse_mottle = rng.uniform(10, 40) * smooth_field(rng, GRID, 12)
    mottle = fine_mottle + coarse_mottle
    density = rng.uniform(-890, -810)
    gradient = rng.uniform(0, 1.2)
    lung = density - gradient * y + mottle
    return lung[None].astype(np.float32)


def other_structures(rng: Generator, wall: np.ndarray) -> list[Structure]:
    """What is as bright as a vessel without being one, in the order in which it is painted."""
    airway = airways(rng)
    airway_wall = rng.uniform(0.7, 1.3)
    lumen = airway - airway_wall
    return [
        Structure(fissure(rng), rng.uniform(-650, -350)),
        Structure(airway, rng.uniform(-250, 0)),
        Structure(lumen, -990),
        Structure(nodules(rng), rng.uniform(-150, 60)),
        Structure(wall, rng.uniform(-60, 50)),
        Structure(fat(rng, wall), rng.uniform(-120, -80)),
        Structure(ribs(rng, wall), rng.uniform(250, 600)),
    ]


def airways(rng: Generator) -> np.ndarray:
    """How many mm each voxel lies inside an airway, including its wall."""
    branches: list[Branch] = []
    for _ in range(rng.integers(2, 4)):
        start, heading = entrance(rng)
        radius = rng.uniform(2.6, 4)
        branches += grow_tree(rng, start, heading, radius, thinnest=1.4)
    points, radii = points_in_volume(branches)
    return tubes(GRID, points, radii, margin=VOXEL / 2)


def nodules(rng: Generator) -> np.ndarray:
    """A handful of small round lesions."""
    count = rng.integers(4, 12)
    centres = rng.uniform(-0.45, 0.45, (count, 3)) * GRID.size
    radii = rng.uniform(1.2, 4, count)
    return tubes(GRID, centres, radii, margin=VOXEL / 2)


def fissure(rng: Generator) -> np.ndarray:
    """The thin, slightly curved sheet between two lobes."""
    x, y, z = GRID.coordinates()
    normal = direction(rng)
    offset = rng.uniform(-15, 15)
    curvature = 2 * smooth_field(rng, GRID, 15)
    distance = normal[0] * x + normal[1] * y + normal[2] * z - offset + curvature
    half_thickness = rng.uniform(0.3, 0.6)
    return half_thickness - np.abs(distance)


def fat(rng: Generator, wall: np.ndarray) -> np.ndarray:
    """Islands of fat inside the chest wall."""
    return np.minimum(wall - 1.5, 2 * smooth_field(rng, GRID, 3))


def ribs(rng: Generator, wall: np.ndarray) -> np.ndarray:
    """Oblique bones in the chest wall."""
    _, y, z = GRID.coordinates()
    slope = rng.uniform(-0.5, 0.5)
    width = rng.uniform(4, 6)
    phase = rng.uniform(0, 6)
    stripes = 4 * np.cos((z + slope * y) / width + phase) - 1
    return np.minimum(stripes, 2.5 - np.abs(wall - 5))


def acquire(rng: Generator, tissue: np.ndarray) -> np.ndarray:
    """The scanned image in Hounsfield units: blurred, noisy and with streaks."""
    from scipy.ndimage import gaussian_filter

    blur = rng.uniform(0.35, 0.75)
    grain = rng.uniform(0.3, 0.6)
    noise = gaussian_filter(rng.standard_normal(GRID.shape).astype(np.float32), grain)
    noise_level = rng.uniform(20, 70)
    image = gaussian_filter(tissue, blur) + noise_level * noise / noise.std()
    streak_level = rng.uniform(5, 25)
    image = image + streak_level * streaks(rng)
    return np.clip(image, -1024, 3071).astype(np.float32)


def streaks(rng: Generator) -> np.ndarray:
    """Parallel streaks across the slices, as from motion or dense objects, at a few angles."""
    x, y, _ = GRID.coordinates()
    total = np.zeros(GRID.shape, np.float32)
    for angle in rng.uniform(0, np.pi, 3):
        across = np.cos(angle) * x + np.sin(angle) * y
        knots = np.linspace(-60, 60, 90)
        profile = np.interp(across, knots, rng.standard_normal(90))
        total += profile * smooth_field(rng, GRID, 15)
    return total
