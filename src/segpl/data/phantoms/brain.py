"""A healthy, skull-stripped brain in four MR modalities: matter, fluid, old lesions and vessels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from segpl.data.phantoms.primitives import (
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
ORIGIN = (0, 0, 0)
PIXEL = 2.0
"""Width of a pixel in mm."""

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
"""Brightness in each modality."""

Coordinates = tuple[np.ndarray, ...]
"""x, y and z of all voxels in mm."""


class Brain(NamedTuple):
    """How many mm each voxel lies inside each structure; negative outside."""

    head: np.ndarray
    grey: np.ndarray
    fluid: np.ndarray
    ventricles: np.ndarray
    old_lesions: np.ndarray
    vessels: np.ndarray
    plexus: np.ndarray


def contrasts(rng: Generator) -> dict[str, np.ndarray]:
    """The brightness of each tissue in each modality of one subject."""
    subject_contrasts = {}
    for tissue, values in TISSUES.items():
        subject_contrasts[tissue] = np.array(values) + rng.normal(0, 0.035, 4)
    return subject_contrasts


def grow(rng: Generator, coordinates: Coordinates) -> Brain:
    """The structures of one subject, on coordinates that a tumour may have displaced."""
    head = _head(rng, coordinates)
    folds = sulci(rng, coordinates, head)
    fluid_spaces = ventricles(rng, coordinates)

    cortex = np.maximum(4.5 - folds, 6 - head)
    grey = np.maximum(cortex, deep_nuclei(rng, coordinates))

    sulcal_width = rng.uniform(0.4, 1.6)
    outer_fluid = np.maximum(sulcal_width - folds, 1 - head)
    fluid = np.maximum(outer_fluid, fluid_spaces)

    tufts = 3 * smooth_field(rng, GRID, 4) - rng.uniform(1, 5)
    plexus = np.minimum(fluid_spaces - 1, tufts)

    lesions = np.minimum(old_lesions(rng, fluid_spaces, head), -grey)
    return Brain(head, grey, fluid, fluid_spaces, lesions, vessels(rng), plexus)


def _head(rng: Generator, coordinates: Coordinates) -> np.ndarray:
    """An uneven ellipsoid."""
    radii = np.array([67, 82, 64]) * rng.normal(1, 0.035, 3)
    smooth_head = ellipsoid(coordinates, ORIGIN, radii)
    return smooth_head + 3 * smooth_field(rng, GRID, 25)


def sulci(rng: Generator, coordinates: Coordinates, head: np.ndarray) -> np.ndarray:
    """The distance to the nearest fold of the surface or to the cleft between the hemispheres."""
    x, _, _ = coordinates
    width = 6.0
    fold_distance = width * np.abs(smooth_field(rng, GRID, width))
    below_folds = np.maximum(head - rng.uniform(12, 20), 0)
    midline_distance = np.abs(x + 1.5 * smooth_field(rng, GRID, 20))
    below_cleft = np.maximum(head - 26, 0)
    return np.minimum(fold_distance + below_folds, midline_distance + below_cleft)


def ventricles(rng: Generator, coordinates: Coordinates) -> np.ndarray:
    """Two horns that bend away from the midline, and the slit below them; their size varies."""
    x, y, z = coordinates
    size = rng.uniform(0.6, 1.5)
    curvature = rng.uniform(6, 14)
    bend = 5 + 4 * size + curvature * ((y + 4) / 40) ** 2
    bent = (np.abs(x) - bend, y + 2, z - 8)
    horns = ellipsoid(bent, ORIGIN, (5 * size, 36, 15))
    slit = ellipsoid(coordinates, (0, -4, -10), (2.2 * size, 14, 12))
    return np.maximum(horns, slit) + 0.8 * smooth_field(rng, GRID, 10)


def deep_nuclei(rng: Generator, coordinates: Coordinates) -> np.ndarray:
    """Thalamus and basal ganglia: grey islands beside the ventricles."""
    x, y, z = coordinates
    mirrored = (np.abs(x), y, z)
    thalamus = ellipsoid(mirrored, centre=(12, -10, 0), radii=(8, 13, 11))
    putamen = ellipsoid(mirrored, centre=(27, 8, 0), radii=(6, 17, 12))
    return np.maximum(thalamus, putamen) + 1.2 * smooth_field(rng, GRID, 8)


def old_lesions(rng: Generator, ventricles: np.ndarray, head: np.ndarray) -> np.ndarray:
    """Scattered bright spots and caps around the ventricles: as bright as oedema, but no tumour."""
    candidates = np.argwhere((head > 12) & (ventricles < -3))
    centres = rng.choice(candidates, rng.integers(10, 45)) - GRID.centre
    radii = rng.uniform(1.5, 6, len(centres))
    spots = tubes(GRID, centres * GRID.spacing, radii, margin=3)
    caps = ventricles + rng.uniform(-2, 2) + 1.5 * smooth_field(rng, GRID, 7)
    return np.maximum(spots + smooth_field(rng, GRID, 3), caps)


def vessels(rng: Generator) -> np.ndarray:
    """Vessels that take up contrast agent, and the sinus along the back of the midline."""
    starts = []
    for _ in range(rng.integers(6, 14)):
        start = direction(rng) * rng.uniform(0.2, 0.8)
        starts.append(start * (58, 72, 48))
    paths = []
    for start in starts:
        heading = direction(rng) * (1, 1, 0.6)
        length = rng.uniform(15, 50)
        paths.append(walk(rng, start, heading, length, wander=0.15))
    radii = [np.full(len(path), rng.uniform(0.8, 1.6)) for path in paths]

    sinus = _sinus()
    paths.append(sinus)
    radii.append(np.full(len(sinus), rng.uniform(1.5, 3.5)))
    return tubes(GRID, np.concatenate(paths), np.concatenate(radii), margin=PIXEL)


def _sinus() -> np.ndarray:
    """Points [160, 3] in mm along an arc at the back of the midline."""
    angles = np.linspace(0.5, 1.25, 160) * np.pi
    x = 0 * angles
    y = 79 * np.cos(angles)
    z = 61 * np.sin(angles)
    return np.stack([x, y, z], axis=1)


def shade(brain: Brain, contrast: dict[str, np.ndarray]) -> np.ndarray:
    """The healthy brain [4, X, Y, Z] in a perfect scanner."""
    image = np.empty((len(MODALITIES), *GRID.shape), np.float32)
    image[:] = np.reshape(contrast["white matter"], (-1, 1, 1, 1))
    paint(image, occupancy(brain.grey, 2 * PIXEL), contrast["grey matter"])
    paint(image, occupancy(brain.old_lesions, PIXEL), contrast["old lesion"])
    paint(image, occupancy(brain.fluid, PIXEL), contrast["fluid"])
    paint(image, occupancy(brain.plexus, PIXEL), contrast["plexus"])
    return image
