"""Figures made of voxels: masks over images, uncertainty beside errors, and what a temperature does."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from PIL import Image

from segpl.reporting.colours import COLOURS
from segpl.reporting.page.scans import Scan, in_region, largest_entropy

FALSE_POSITIVE, TRUE_POSITIVE, FALSE_NEGATIVE, TRUTH = "#e11d48", "#4ade80", "#2563eb", "#facc15"
"""The paper's red, green, blue and yellow, of different lightness for those who do not tell red from green."""
TEMPERATURES = (0.1, 1.0, 15.0)
"""The paper's."""
CELL = 1.55
"""Inches of one picture."""


def draw_masks(scans: Sequence[Scan]) -> Figure:
    """A row a case at its fullest slice: image, truth, and the mask of each method."""
    methods = _methods(scans)
    figure, axes = _grid(len(scans), ["image", "truth", *methods])
    for row, scan in zip(axes, scans, strict=True):
        z, plane = scan.fullest, scan.image[..., scan.fullest]
        painted = [
            scan.truth,
            *(scan.mask(name) if name in scan.runs else None for name in methods),
        ]
        _show(row[0], scan, _rgb(plane))
        for axis, bits in zip(row[1:], painted, strict=True):
            _show(
                axis, scan, paint(plane, bits[..., z]) if bits is not None else np.ones((1, 1, 3))
            )
        row[0].set_ylabel(f"{_short(scan.name)}\nslice {z + 1}", fontsize=8)
    names = [str(region["name"]) for region in scans[0].regions]
    return _legend(figure, dict(zip(names, COLOURS, strict=False)))


def draw_doubts(scans: Sequence[Scan]) -> Figure:
    """Two rows a case: where each method errs in the first region, and where it is unsure."""
    methods = _methods(scans)
    figure, axes = _grid(2 * len(scans), ["image", *methods])
    for number, scan in enumerate(scans):
        wrong, unsure = axes[2 * number : 2 * number + 2]
        z, plane = scan.fullest, scan.image[..., scan.fullest]
        _show(wrong[0], scan, _rgb(plane))
        _show(unsure[0], scan, paint(plane, scan.truth[..., z]))
        wrong[0].set_ylabel(f"{_short(scan.name)}\nerrors", fontsize=8)
        unsure[0].set_ylabel("truth; entropy", fontsize=8)
        for place, name in enumerate(methods, start=1):
            if name not in scan.runs:
                continue
            _show(wrong[place], scan, errors(plane, scan.mask(name)[..., z], scan.truth[..., z]))
            p = scan.probabilities(name)
            doubt = np.zeros(plane.shape) if p is None else largest_entropy(p[..., z])
            _show(unsure[place], scan, doubt)
    colours = {
        "false positive": FALSE_POSITIVE,
        "true positive": TRUE_POSITIVE,
        "false negative": FALSE_NEGATIVE,
    }
    return _legend(figure, colours)


def draw_temperatures(scans: Sequence[Scan]) -> Figure:
    """A row a method: its confidence in the first region of one case at the paper's three temperatures."""
    scan = scans[0]
    kept = {name: p for name in scan.runs if (p := scan.probabilities(name)) is not None}
    figure, axes = _grid(len(kept), ["image and truth", *(f"T = {t:g}" for t in TEMPERATURES)])
    z = scan.fullest
    for row, (name, p) in zip(axes, kept.items(), strict=True):
        _show(row[0], scan, paint(scan.image[..., z], scan.truth[..., z]))
        row[0].set_ylabel(name, fontsize=8)
        for axis, temperature in zip(row[1:], TEMPERATURES, strict=True):
            _show(axis, scan, 2 * confidence(p[0, ..., z], temperature) - 1)
    return figure


def draw_levels(scans: Sequence[Scan]) -> Figure:
    """A row a shift: one slice from the image as it is to the strongest level."""
    (scan,) = scans
    rows = {
        shift: list(levels.items())[:1] + list(levels.items())[1:][-5:]
        for shift, levels in scan.levels().items()
    }
    figure, axes = _grid(len(rows), [""] * max(map(len, rows.values())))
    for row, (shift, levels) in zip(axes, rows.items(), strict=True):
        row[0].set_ylabel(shift, fontsize=8)
        for axis, (level, file) in zip(row, levels, strict=False):
            plane = np.asarray(Image.open(file)) / 255
            _show(axis, scan, _rgb(plane[::-1] if scan.upwards else plane))
            axis.set_title(f"{level:g}", fontsize=8)
    return figure


def confidence(
    per_cent: UInt8[np.ndarray, "*space"], temperature: float
) -> Float[np.ndarray, "*space"]:
    """How sure of its answer a voxel is, from a half to 1, once its logit is divided by a temperature."""
    q = np.clip(
        per_cent / 100, 0.005, 0.995
    )  # whole per cents: 0 and 1 are nearer to these than to what lies beyond
    logit = np.log(q / (1 - q)) / temperature
    return 1 / (1 + np.exp(-np.abs(logit)))


def paint(
    plane: Float[np.ndarray, "rows columns"], bits: UInt8[np.ndarray, "rows columns"]
) -> np.ndarray:
    """Regions in colour over the image, later ones on top."""
    shown = _rgb(plane)
    for number in range(8):
        inside = in_region(bits, number)
        shown[inside] = 0.4 * _rgb(plane)[inside] + 0.6 * np.array(
            to_rgb(COLOURS[number % len(COLOURS)])
        )
    return shown


def errors(
    plane: Float[np.ndarray, "rows columns"],
    mask: UInt8[np.ndarray, "rows columns"],
    truth: UInt8[np.ndarray, "rows columns"],
) -> np.ndarray:
    """What a mask gets wrong and right in the first region, in the paper's colours."""
    shown, found, there = _rgb(plane), in_region(mask, 0), in_region(truth, 0)
    parts = {
        FALSE_POSITIVE: found & ~there,
        TRUE_POSITIVE: found & there,
        FALSE_NEGATIVE: there & ~found,
    }
    for colour, part in parts.items():
        shown[part] = 0.3 * shown[part] + 0.7 * np.array(to_rgb(colour))
    return shown


def _methods(scans: Sequence[Scan]) -> list[str]:
    return list(dict.fromkeys(name for scan in scans for name in scan.runs))


def _rgb(plane: Float[np.ndarray, "rows columns"]) -> np.ndarray:
    return np.repeat(plane[..., None], 3, axis=-1)


def _grid(rows: int, titles: Sequence[str]) -> tuple[Figure, np.ndarray]:
    figure = Figure(figsize=(CELL * len(titles) + 0.3, CELL * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, len(titles), squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=9)
    return figure, axes


def _show(axis: Axes, scan: Scan, picture: np.ndarray) -> None:
    height, width = scan.pixel
    axis.set_axis_on()
    axis.imshow(
        picture, cmap="magma", vmin=0, vmax=1, aspect=height / width, interpolation="nearest"
    )
    axis.set(xticks=[], yticks=[])
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)


def _short(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:15]}..."


def _legend(figure: Figure, colours: dict[str, str]) -> Figure:
    patches = [Patch(color=colour, label=name) for name, colour in colours.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=min(len(patches), 4))
    return figure
