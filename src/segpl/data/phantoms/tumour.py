"""A brain tumour in four MR modalities: oedema around a core, part of which takes up contrast agent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from segpl.data.phantoms.brain import GRID, PIXEL, Brain, contrasts, grow, shade
from segpl.data.phantoms.fields import (
    Phantom,
    direction,
    ellipsoid,
    generator,
    occupancy,
    paint,
    smooth_field,
)


class Growth(NamedTuple):
    """The random parameters of a tumour, in millimetres."""

    centre: np.ndarray
    radii: np.ndarray
    lobe: np.ndarray | None  # where a second lobe sits relative to the first
    core: float  # the size of the core relative to the whole
    rim: float  # how thick the enhancing shell of the core is


class Regions(NamedTuple):
    """How deep each voxel lies inside each of the three nested regions; negative outside."""

    whole: np.ndarray
    core: np.ndarray
    enhancing: np.ndarray


def draw(seed: int, subject: int) -> Phantom:
    """One subject: the same for ever, whatever the other subjects."""
    anatomy, disease, scanner = (generator(seed, subject, stream) for stream in range(3))
    growth = draw_growth(disease)
    brain = grow(anatomy, pushed_aside(growth))
    regions = infiltrate(disease, growth, brain)
    image = acquire(scanner, stain(disease, brain, regions), brain.head > 0)
    return Phantom(image, label(regions), GRID.spacing)


def draw_growth(rng: np.random.Generator) -> Growth:
    """Where a tumour sits and how large it is: from a nut to a fist, one in five with hardly a core."""
    side = rng.choice([-1, 1])
    centre = np.array([side * rng.uniform(16, 44), rng.uniform(-48, 48), rng.uniform(-24, 34)])
    radius = rng.uniform(22, 36)
    lobe = direction(rng) * radius * rng.uniform(0.8, 1.2) if rng.random() < 0.4 else None
    core = rng.uniform(0.3, 0.4) if rng.random() < 0.2 else rng.uniform(0.55, 0.85)
    return Growth(centre, radius * np.exp(rng.normal(0, 0.2, 3)), lobe, core, rng.uniform(2.5, 7))


def pushed_aside(growth: Growth) -> tuple[np.ndarray, ...]:
    """The coordinates of the healthy brain after the tumour has made room for itself."""
    away = [x - c for x, c in zip(GRID.coordinates(), growth.centre, strict=True)]
    radius = float(np.mean(growth.radii)) * (0.4 + growth.core)
    distance = np.sqrt(away[0] ** 2 + away[1] ** 2 + away[2] ** 2)
    push = 0.3 * np.exp(-0.5 * (distance / radius) ** 2)
    return tuple(x - push * shift for x, shift in zip(GRID.coordinates(), away, strict=True))


def blob(growth: Growth, size: float) -> np.ndarray:
    """The lobes of a tumour before it grows irregular."""
    where, radii = GRID.coordinates(), growth.radii * size
    first = ellipsoid(where, growth.centre, radii)
    if growth.lobe is None:
        return first
    return np.maximum(first, ellipsoid(where, growth.centre + growth.lobe * size, 0.7 * radii))


def infiltrate(rng: np.random.Generator, growth: Growth, brain: Brain) -> Regions:
    """Warp the blobs into a tumour that spreads along white matter and stops at fluid and at the surface."""
    ragged = float(np.min(growth.radii)) * (
        0.22 * smooth_field(rng, GRID, 10) + 0.1 * smooth_field(rng, GRID, 5)
    )
    whole = blob(growth, 1) + ragged - 3 * occupancy(brain.grey, 4)
    whole = np.minimum.reduce([whole, -brain.ventricles, brain.head - 2])
    core = np.minimum(
        blob(growth, growth.core) + 0.6 * ragged + 1.5 * smooth_field(rng, GRID, 6), whole - 2
    )
    rim = (
        growth.rim * (1 + 0.6 * smooth_field(rng, GRID, 9)) - core
    )  # a shell of uneven thickness, with gaps
    return Regions(whole, core, np.minimum(core, rim))


def label(regions: Regions) -> np.ndarray:
    """1 oedema, 2 non-enhancing core, 3 enhancing core."""
    return np.sum([region > 0 for region in regions], axis=0).astype(np.uint8)


def stain(rng: np.random.Generator, brain: Brain, regions: Regions) -> np.ndarray:
    """The image [4, X, Y, Z] of the brain and its tumour as a perfect scanner would see it."""
    contrast = contrasts(rng)
    image = shade(brain, contrast)
    patchy = 0.85 + 0.15 * np.tanh(smooth_field(rng, GRID, 7))
    paint(image, patchy * occupancy(regions.whole, 3 * PIXEL), contrast["oedema"])
    paint(image, occupancy(regions.core, 1.5 * PIXEL), contrast["non-enhancing core"])
    paint(image, patchy * occupancy(regions.enhancing, PIXEL), contrast["enhancing core"])
    paint(image, occupancy(brain.vessels, PIXEL), contrast["vessel"])
    return image


def bias_field(rng: np.random.Generator) -> np.ndarray:
    """The uneven sensitivity of the receiving coil, around 1."""
    return np.exp(rng.uniform(0.08, 0.2) * smooth_field(rng, GRID, 60))


def acquire(rng: np.random.Generator, image: np.ndarray, head: np.ndarray) -> np.ndarray:
    """What a scanner makes of a perfect image: its own contrast, bias, blur, noise and scale in every modality."""
    noise = rng.uniform(0.03, 0.07)
    return np.stack([expose(rng, channel, noise) * head for channel in image])


def expose(rng: np.random.Generator, channel: np.ndarray, noise: float) -> np.ndarray:
    """One modality in the scanner's units; at least 1, because 0 means outside the head."""
    from scipy.ndimage import gaussian_filter

    signal = np.clip(channel, 0, None) ** rng.uniform(0.75, 1.3) * bias_field(rng)
    signal = gaussian_filter(signal, (rng.uniform(0.3, 0.7),) * 2 + (0.3,))
    real, imaginary = rng.normal(0, noise, (2, *GRID.shape))
    magnitude = np.hypot(signal + real, imaginary)  # Rician
    return np.clip(magnitude * rng.uniform(250, 1500), 1, 32000).astype(np.float32)
