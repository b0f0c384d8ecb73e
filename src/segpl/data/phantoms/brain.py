"""A healthy brain, skull-stripped: matter, fluid, old lesions and vessels, in four MR modalities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from segpl.data.phantoms.fields import (
    Grid,
    direction,
    ellipsoid,
    occupancy,
    paint,
    smooth_field,
    tubes,
    walk,
)

GRID = Grid((96, 96, 24), (2.0, 2.0, 6.0))
PIXEL = 2.0

MODALITIES = ("flair", "t1", "t1ce", "t2")
TISSUES = {
    "white matter": (0.46, 0.68, 0.68, 0.36),
    "grey matter": (0.61, 0.48, 0.50, 0.54),
    "fluid": (0.16, 0.20, 0.20, 0.95),
    "old lesion": (0.84, 0.48, 0.48, 0.76),
    "vessel": (0.40, 0.50, 1.00, 0.30),
    "plexus": (0.60, 0.45, 0.92, 0.70),
    "oedema": (0.72, 0.50, 0.50, 0.70),
    "non-enhancing core": (0.62, 0.36, 0.35, 0.74),
    "enhancing core": (0.72, 0.48, 0.94, 0.64),
}


class Brain(NamedTuple):
    """How deep, in millimetres, each voxel lies inside each structure; negative outside."""

    head: np.ndarray
    grey: np.ndarray
    fluid: np.ndarray
    ventricles: np.ndarray
    old_lesions: np.ndarray
    vessels: np.ndarray
    plexus: np.ndarray


def contrasts(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """How bright each tissue is in each modality of this subject."""
    return {
        tissue: np.array(values) + rng.normal(0, 0.035, 4) for tissue, values in TISSUES.items()
    }


def grow(rng: np.random.Generator, where: tuple[np.ndarray, ...]) -> Brain:
    """The structures of one subject, on coordinates that a tumour may have pushed aside."""
    head = ellipsoid(where, np.zeros(3), np.array([67, 82, 64]) * rng.normal(1, 0.035, 3))
    head = head + 3 * smooth_field(rng, GRID, 25)
    folds = sulci(rng, where, head)
    fluid_spaces = ventricles(rng, where)
    grey = np.maximum.reduce([4.5 - folds, 6 - head, deep_nuclei(rng, where)])
    fluid = np.maximum.reduce([rng.uniform(0.4, 1.6) - folds, 1 - head, fluid_spaces])
    plexus = np.minimum(fluid_spaces - 1, 3 * smooth_field(rng, GRID, 4) - rng.uniform(1, 5))
    lesions = np.minimum(old_lesions(rng, fluid_spaces, head), -grey)
    return Brain(head, grey, fluid, fluid_spaces, lesions, vessels(rng), plexus)


def sulci(rng: np.random.Generator, where: tuple[np.ndarray, ...], head: np.ndarray) -> np.ndarray:
    """The distance to the nearest fold of the surface or to the cleft between the hemispheres."""
    width = 6.0
    folds = width * np.abs(smooth_field(rng, GRID, width)) + np.maximum(
        head - rng.uniform(12, 20), 0
    )
    cleft = np.abs(where[0] + 1.5 * smooth_field(rng, GRID, 20)) + np.maximum(head - 26, 0)
    return np.minimum(folds, cleft)


def ventricles(rng: np.random.Generator, where: tuple[np.ndarray, ...]) -> np.ndarray:
    """Two horns that bend away from the midline, and the slit below them; their size varies as with age."""
    x, y, z = where
    size = rng.uniform(0.6, 1.5)
    bend = 5 + 4 * size + rng.uniform(6, 14) * ((y + 4) / 40) ** 2
    horns = ellipsoid((np.abs(x) - bend, y + 2, z - 8), np.zeros(3), np.array([5 * size, 36, 15]))
    slit = ellipsoid(where, np.array([0, -4, -10]), np.array([2.2 * size, 14, 12]))
    return np.maximum(horns, slit) + 0.8 * smooth_field(rng, GRID, 10)


def deep_nuclei(rng: np.random.Generator, where: tuple[np.ndarray, ...]) -> np.ndarray:
    """Thalamus and basal ganglia: grey islands beside the ventricles."""
    x, y, z = where
    mirrored = (np.abs(x), y, z)
    thalamus = ellipsoid(mirrored, np.array([12, -10, 0]), np.array([8, 13, 11]))
    putamen = ellipsoid(mirrored, np.array([27, 8, 0]), np.array([6, 17, 12]))
    return np.maximum(thalamus, putamen) + 1.2 * smooth_field(rng, GRID, 8)


def old_lesions(rng: np.random.Generator, ventricles: np.ndarray, head: np.ndarray) -> np.ndarray:
    """Scattered bright spots and the caps around the ventricles: as bright as oedema, and not a tumour."""
    candidates = np.argwhere((head > 12) & (ventricles < -3))
    spots = rng.choice(candidates, rng.integers(10, 45)) - (np.array(GRID.shape) - 1) / 2
    depth = tubes(GRID, spots * GRID.spacing, rng.uniform(1.5, 6, len(spots)), margin=3)
    caps = ventricles + rng.uniform(-2, 2) + 1.5 * smooth_field(rng, GRID, 7)
    return np.maximum(depth + smooth_field(rng, GRID, 3), caps)


def vessels(rng: np.random.Generator) -> np.ndarray:
    """Vessels that take up contrast agent, and the sinus along the back of the midline."""
    starts = [
        direction(rng) * rng.uniform(0.2, 0.8) * (58, 72, 48) for _ in range(rng.integers(6, 14))
    ]
    paths = [
        walk(rng, start, direction(rng) * (1, 1, 0.6), rng.uniform(15, 50), 0.15)
        for start in starts
    ]
    radii = [np.full(len(path), rng.uniform(0.8, 1.6)) for path in paths]
    angles = np.linspace(0.5, 1.25, 160) * np.pi
    paths.append(np.stack([0 * angles, 79 * np.cos(angles), 61 * np.sin(angles)], axis=1))
    radii.append(np.full(len(angles), rng.uniform(1.5, 3.5)))
    return tubes(GRID, np.concatenate(paths), np.concatenate(radii), margin=PIXEL)


def shade(brain: Brain, contrast: dict[str, np.ndarray]) -> np.ndarray:
    """The healthy brain [4, X, Y, Z] as a perfect scanner would see it."""
    image = np.empty((len(MODALITIES), *GRID.shape), np.float32)
    image[:] = np.reshape(contrast["white matter"], (-1, 1, 1, 1))
    paint(image, occupancy(brain.grey, 2 * PIXEL), contrast["grey matter"])
    paint(image, occupancy(brain.old_lesions, PIXEL), contrast["old lesion"])
    paint(image, occupancy(brain.fluid, PIXEL), contrast["fluid"])
    paint(image, occupancy(brain.plexus, PIXEL), contrast["plexus"])
    return image
