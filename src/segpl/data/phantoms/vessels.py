"""Lung vessels in CT: branching trees among airways, nodules and fissures, beside the chest wall."""

from __future__ import annotations

import numpy as np

from segpl.data.phantoms.fields import (
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
THINNEST = 0.4  # millimetres: a vessel one voxel wide

Tree = list[tuple[np.ndarray, np.ndarray]]  # the points of each branch and the radius at each point


def draw(seed: int, subject: int) -> Phantom:
    """One subject: the same for ever, whatever the other subjects."""
    anatomy, distractors, scanner = (generator(seed, subject, stream) for stream in range(3, 6))
    wall = chest_wall(anatomy)
    blood = np.minimum(vasculature(anatomy), -wall)
    image = parenchyma(distractors)
    for depth, hounsfield in bystanders(distractors, wall):
        paint(image, occupancy(depth, VOXEL), hounsfield)
    paint(image, occupancy(blood, VOXEL), anatomy.uniform(-30, 90))
    image = acquire(scanner, image[0])[None]
    mirror = slice(None, None, anatomy.choice([-1, 1]))  # a left or a right lung
    return Phantom(image[:, mirror].copy(), (blood > 0)[mirror].astype(np.uint8), GRID.spacing)


def chest_wall(rng: np.random.Generator) -> np.ndarray:
    """How deep each voxel lies in the soft tissue that curves along one side."""
    x, y, z = GRID.coordinates()
    bulge = rng.uniform(0.02, 0.08) * (y - rng.uniform(-20, 20)) ** 2 / 10
    return x - rng.uniform(30, 36) + bulge + 0 * z + 0.5 * smooth_field(rng, GRID, 12)


def vasculature(rng: np.random.Generator) -> np.ndarray:
    """How deep each voxel lies in a vessel: several trees that come in from the side of the heart."""
    trees: Tree = []
    for _ in range(rng.integers(9, 15)):
        start, heading = entrance(rng)
        trees += branch(rng, start, heading, rng.uniform(1.9, 2.8), THINNEST)
    points, radii = gather(trees)
    depth = tubes(GRID, points, radii, margin=VOXEL / 2)
    # the thinnest vessels pass between voxel centres: the voxel that holds the centreline is a vessel nevertheless
    i, j, k = GRID.voxels(points).T
    depth[i, j, k] = np.maximum(depth[i, j, k], 0.01)
    return depth


def entrance(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Where a tree comes in, and which way it goes: from the heart, or from above or below, towards the wall."""
    half = GRID.size / 2
    start = np.array([-half[0], *rng.uniform(-0.8, 0.8, 2) * half[1:]])
    if rng.random() < 0.4:
        start = (
            np.array([rng.uniform(-0.8, 0.2), rng.choice([-1, 1]), rng.uniform(-0.8, 0.8)]) * half
        )
    heading = np.array([0.3 * half[0], 0, 0]) - start
    return start, heading / np.linalg.norm(heading)


def branch(
    rng: np.random.Generator,
    start: np.ndarray,
    heading: np.ndarray,
    radius: float,
    thinnest: float,
    level: int = 0,
) -> Tree:
    """A vessel and, recursively, those it divides into; the cubes of their radii add up to its own (Murray's law)."""
    path = walk(
        rng, start, heading, radius * rng.uniform(3, 8) + 5, 0.12, pace=max(0.4, radius / 3)
    )
    tapered = np.linspace(radius, 0.92 * radius, len(path))
    tree: Tree = [(path, np.maximum(tapered, thinnest))]
    if radius < thinnest or level > 11 or (np.abs(path[-1]) > GRID.size / 2 + 2).any():
        return tree
    onward = (path[-1] - path[0]) / np.linalg.norm(path[-1] - path[0])
    share, sideways = rng.uniform(0.1, 0.5), direction(rng)
    for part, turn in ((share, 0.9), (1 - share, -0.9 * share)):
        tree += branch(
            rng,
            path[-1],
            onward + turn * sideways,
            0.92 * radius * part ** (1 / 3),
            thinnest,
            level + 1,
        )
    return tree


def gather(tree: Tree) -> tuple[np.ndarray, np.ndarray]:
    """All points of a tree that lie in the volume, and their radii."""
    points, radii = (np.concatenate(parts) for parts in zip(*tree, strict=True))
    voxels = GRID.voxels(points)
    inside = ((voxels >= 0) & (voxels < GRID.shape)).all(axis=1)
    return points[inside], radii[inside]


def parenchyma(rng: np.random.Generator) -> np.ndarray:
    """Aerated lung [1, X, Y, Z]: denser towards the back, mottled at two scales."""
    _, y, _ = GRID.coordinates()
    mottle = rng.uniform(10, 35) * smooth_field(rng, GRID, 2) + rng.uniform(10, 40) * smooth_field(
        rng, GRID, 12
    )
    return (rng.uniform(-890, -810) - rng.uniform(0, 1.2) * y + mottle)[None].astype(np.float32)


def bystanders(rng: np.random.Generator, wall: np.ndarray) -> list[tuple[np.ndarray, float]]:
    """All that is as bright as a vessel and is none, in the order it is painted, with its Hounsfield units."""
    airway, thickness = airways(rng), rng.uniform(0.7, 1.3)
    return [
        (fissure(rng), rng.uniform(-650, -350)),
        (airway, rng.uniform(-250, 0)),
        (airway - thickness, -990),
        (nodules(rng), rng.uniform(-150, 60)),
        (wall, rng.uniform(-60, 50)),
        (np.minimum(wall - 1.5, 2 * smooth_field(rng, GRID, 3)), rng.uniform(-120, -80)),  # fat
        (ribs(rng, wall), rng.uniform(250, 600)),
    ]


def airways(rng: np.random.Generator) -> np.ndarray:
    """How deep each voxel lies in an airway, wall included."""
    trees: Tree = []
    for _ in range(rng.integers(2, 4)):
        trees += branch(rng, *entrance(rng), rng.uniform(2.6, 4), thinnest=1.4)
    return tubes(GRID, *gather(trees), margin=VOXEL / 2)


def nodules(rng: np.random.Generator) -> np.ndarray:
    """A handful of small round lesions."""
    count = rng.integers(4, 12)
    return tubes(
        GRID,
        rng.uniform(-0.45, 0.45, (count, 3)) * GRID.size,
        rng.uniform(1.2, 4, count),
        margin=VOXEL / 2,
    )


def fissure(rng: np.random.Generator) -> np.ndarray:
    """The thin, gently curved sheet between two lobes."""
    x, y, z = GRID.coordinates()
    tilt, offset = direction(rng), rng.uniform(-15, 15)
    sheet = tilt[0] * x + tilt[1] * y + tilt[2] * z - offset + 2 * smooth_field(rng, GRID, 15)
    return rng.uniform(0.3, 0.6) - np.abs(sheet)


def ribs(rng: np.random.Generator, wall: np.ndarray) -> np.ndarray:
    """Bone that crosses the chest wall aslant."""
    _, y, z = GRID.coordinates()
    stripes = (
        4 * np.cos((z + rng.uniform(-0.5, 0.5) * y) / rng.uniform(4, 6) + rng.uniform(0, 6)) - 1
    )
    return np.minimum(stripes, 2.5 - np.abs(wall - 5))


def streaks(rng: np.random.Generator) -> np.ndarray:
    """Parallel streaks across the slices, as from motion or dense objects, at a few angles."""
    x, y, _ = GRID.coordinates()
    total = np.zeros(GRID.shape, np.float32)
    for angle in rng.uniform(0, np.pi, 3):
        across = np.cos(angle) * x + np.sin(angle) * y
        profile = np.interp(across, np.linspace(-60, 60, 90), rng.standard_normal(90))
        total += profile * smooth_field(rng, GRID, 15)
    return total


def acquire(rng: np.random.Generator, tissue: np.ndarray) -> np.ndarray:
    """What a scanner makes of the tissue: its kernel, its noise and its streaks, in Hounsfield units."""
    from scipy.ndimage import gaussian_filter

    blur, grain = rng.uniform(0.35, 0.75), rng.uniform(0.3, 0.6)
    noise = gaussian_filter(rng.standard_normal(GRID.shape).astype(np.float32), grain)
    image = gaussian_filter(tissue, blur) + rng.uniform(20, 70) * noise / noise.std()
    return np.clip(image + rng.uniform(5, 25) * streaks(rng), -1024, 3071).astype(np.float32)
