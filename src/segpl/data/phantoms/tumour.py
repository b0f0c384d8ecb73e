"""A brain tumour in four MR modalities: oedema around a core that partly enhances."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from segpl.data.phantoms.brain import (
    GRID,
    PIXEL,
    Brain,
    Coordinates,
    contrasts,
    grow,
    shade,
)
from segpl.data.phantoms.primitives import (
    Phantom,
    direction,
    ellipsoid,
    generator,
    occupancy,
    paint,
    smooth_field,
)


class Growth(NamedTuple):
    """The random parameters of a tumour, in mm."""

    centre: np.ndarray
    radii: np.ndarray
    second_lobe: np.ndarray | None
    """Its centre relative to that of the first lobe; None without a second lobe."""
    core: float
    """Size of the core relative to the whole."""
    rim: float
    """Thickness of the enhancing shell of the core."""


class Regions(NamedTuple):
    """How many mm each voxel lies inside each of the three nested regions; negative outside."""

    whole: np.ndarray
    core: np.ndarray
    enhancing: np.ndarray


def draw(seed: int, subject: int) -> Phantom:
    """One subject. It depends on these two numbers only."""
    anatomy = generator(seed, subject, 0)
    disease = generator(seed, subject, 1)
    scanner = generator(seed, subject, 2)
    growth = draw_growth(disease)
    brain = grow(anatomy, displaced_coordinates(growth))
    regions = infiltrate(disease, growth, brain)
    tissue = shade_tumour(disease, brain, regions)
    image = acquire(scanner, tissue, brain.head > 0)
    return Phantom(image, label(regions), GRID.spacing)


def draw_growth(rng: Generator) -> Growth:
    """Position and size of a tumour: as small as a nut or as large as a fist.

    One in five has hardly a core.
    """
    side = rng.choice([-1, 1])
    x = side * rng.uniform(16, 44)
    y = rng.uniform(-48, 48)
    z = rng.uniform(-24, 34)
    radius = rng.uniform(22, 36)
    second_lobe = None
    if rng.random() < 0.4:
        second_lobe = direction(rng) * radius * rng.uniform(0.8, 1.2)
    has_small_core = rng.random() < 0.2
    core = rng.uniform(0.3, 0.4) if has_small_core else rng.uniform(0.55, 0.85)
    radii = radius * np.exp(rng.normal(0, 0.2, 3))
    rim = rng.uniform(2.5, 7)
    return Growth(np.array([x, y, z]), radii, second_lobe, core, rim)


def displaced_coordinates(growth: Growth) -> Coordinates:
    """The coordinates of the healthy brain after the tumour has displaced it."""
    coordinates = GRID.coordinates()
    x, y, z = [axis - centre for axis, centre in zip(coordinates, growth.centre, strict=True)]
    distance = np.sqrt(x**2 + y**2 + z**2)
    radius = float(np.mean(growth.radii)) * (0.4 + growth.core)
    push = 0.3 * np.exp(-0.5 * (distance / radius) ** 2)
    displaced = []
    for axis, from_centre in zip(coordinates, (x, y, z), strict=True):
        displaced.append(axis - push * from_centre)
    return tuple(displaced)


def lobes(growth: Growth, size: float) -> np.ndarray:
    """The lobes of a tumour before it becomes irregular, scaled by `size`."""
    coordinates = GRID.coordinates()
    radii = growth.radii * size
    first = ellipsoid(coordinates, growth.centre, radii)
    if growth.second_lobe is None:
        return first
    second_centre = growth.centre + growth.second_lobe * size
    second = ellipsoid(coordinates, second_centre, 0.7 * radii)
    return np.maximum(first, second)


def infiltrate(rng: Generator, growth: Growth, brain: Brain) -> Regions:
    """Grow an irregular tumour along white matter that stops at fluid and at the surface."""
    coarse = 0.22 * smooth_field(rng, GRID, 10)
    fine = 0.1 * smooth_field(rng, GRID, 5)
    irregularity = float(np.min(growth.radii)) * (coarse + fine)

    resistance = 3 * occupancy(brain.grey, 4)
    whole = lobes(growth, 1) + irregularity - resistance
    whole = np.minimum.reduce([whole, -brain.ventricles, brain.head - 2])

    core = lobes(growth, growth.core) + 0.6 * irregularity + 1.5 * smooth_field(rng, GRID, 6)
    core = np.minimum(core, whole - 2)

    # A shell of uneven thickness, with gaps.
    thickness = growth.rim * (1 + 0.6 * smooth_field(rng, GRID, 9))
    enhancing = np.minimum(core, thickness - core)
    return Regions(whole, core, enhancing)


def label(regions: Regions) -> np.ndarray:
    """1 oedema, 2 non-enhancing core, 3 enhancing core."""
    return np.sum([region > 0 for region in regions], axis=0).astype(np.uint8)


def shade_tumour(rng: Generator, brain: Brain, regions: Regions) -> np.ndarray:
    """The brain and its tumour [4, X, Y, Z] in a perfect scanner."""
    contrast = contrasts(rng)
    image = shade(brain, contrast)
    patchiness = 0.85 + 0.15 * np.tanh(smooth_field(rng, GRID, 7))
    oedema = patchiness * occupancy(regions.whole, 3 * PIXEL)
    core = occupancy(regions.core, 1.5 * PIXEL)
    enhancing = patchiness * occupancy(regions.enhancing, PIXEL)
    paint(image, oedema, contrast["oedema"])
    paint(image, core, contrast["non-enhancing core"])
    paint(image, enhancing, contrast["enhancing core"])
    paint(image, occupancy(brain.vessels, PIXEL), contrast["vessel"])
    return image


def acquire(rng: Generator, tissue: np.ndarray, head: np.ndarray) -> np.ndarray:
    """The scanned image: each modality has its own contrast, bias, blur and scale."""
    noise = rng.uniform(0.03, 0.07)
    return np.stack([acquire_modality(rng, channel, noise) * head for channel in tissue])


def acquire_modality(rng: Generator, channel: np.ndarray, noise: float) -> np.ndarray:
    """One modality in the scanner's units; at least 1, because 0 means outside the head."""
    from scipy.ndimage import gaussian_filter

    gamma = rng.uniform(0.75, 1.3)
    signal = np.clip(channel, 0, None) ** gamma * bias_field(rng)
    blur = rng.uniform(0.3, 0.7)
    signal = gaussian_filter(signal, (blur, blur, 0.3))
    real_noise, imaginary_noise = rng.normal(0, noise, (2, *GRID.shape))
    magnitude = np.hypot(signal + real_noise, imaginary_noise)  # Rician noise
    scale = rng.uniform(250, 1500)
    return np.clip(magnitude * scale, 1, 32000).astype(np.float32)


def bias_field(rng: Generator) -> np.ndarray:
    """The uneven sensitivity of the receiving coil, around 1."""
    strength = rng.uniform(0.08, 0.2)
    return np.exp(strength * smooth_field(rng, GRID, 60))
