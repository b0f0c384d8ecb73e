"""Figures made of slices: masks over images, errors and uncertainty, temperatures, shift levels."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8, UInt16
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch
from PIL import Image
from scipy import special

from segpl.reporting.colours import COLOURS
from segpl.reporting.page.scans import MAX_REGIONS, Scan, in_region, largest_entropy

Plane = Float[np.ndarray, "rows columns"]
"""One slice in grey, black at 0 and white at 1."""
RegionPlane = UInt8[np.ndarray, "rows columns"]
"""The regions of each pixel of a slice: bit k is set in region k."""
ColourPlane = Float[np.ndarray, "rows columns 3"]
"""One slice in colour, RGB from 0 to 1."""

# The paper's red, green, blue and yellow. They differ in lightness too, for colour-blind readers.
FALSE_POSITIVE = "#e11d48"
TRUE_POSITIVE = "#4ade80"
FALSE_NEGATIVE = "#2563eb"
TRUTH = "#facc15"

DARK_TO_BRIGHT = "magma"
BLUE_TO_RED = "RdBu_r"
"""White at 0.5; deep blue at 0 and deep red at 1, as in the paper."""

TEMPERATURES = (0.1, 1.0, 15.0)
"""As in the paper."""
MAX_LEVELS = 5
"""Levels of a shift that are shown beside the clean image."""
SLICE_SIZE = 1.55
"""Inches."""
COLOUR_BAR_WIDTH = 0.9
"""Inches."""
MAX_NAME = 18
"""Characters of a case's name beside its row."""


def draw_masks(scans: Sequence[Scan]) -> Figure:
    """One row per case at its fullest slice: image, truth, and the mask of each method."""
    methods = _methods(scans)
    figure, axes = _slice_grid(len(scans), ["image", "truth", *methods])
    for row, scan in zip(axes, scans, strict=True):
        _draw_masks_of_case(row, scan, methods)
    region_names = [str(region["name"]) for region in scans[0].regions]
    return _add_legend(figure, dict(zip(region_names, COLOURS, strict=False)))


def _draw_masks_of_case(row: Sequence[Axes], scan: Scan, methods: Sequence[str]) -> None:
    z = scan.fullest_slice
    plane = scan.image[..., z]
    truth = scan.truth[..., z]
    slice_number = z + 1
    row[0].set_ylabel(f"{_shortened(scan.name)}\nslice {slice_number}", fontsize=8)
    _show(row[0], scan, _rgb(plane))
    _show(row[1], scan, paint_regions(plane, truth))
    for axis, method in zip(row[2:], methods, strict=True):
        if method in scan.runs:
            mask = scan.mask(method)[..., z]
            _show(axis, scan, paint_regions(plane, mask))
        else:
            _show(axis, scan, np.ones((1, 1, 3)))


def draw_uncertainty(scans: Sequence[Scan]) -> Figure:
    """Two rows per case: the errors of each method in the first region, and its entropy."""
    methods = _methods(scans)
    figure, axes = _slice_grid(2 * len(scans), ["image", *methods])
    for index, scan in enumerate(scans):
        error_row = axes[2 * index]
        entropy_row = axes[2 * index + 1]
        _draw_uncertainty_of_case(error_row, entropy_row, scan, methods)
    colours = {
        "false positive": FALSE_POSITIVE,
        "true positive": TRUE_POSITIVE,
        "false negative": FALSE_NEGATIVE,
    }
    return _add_legend(figure, colours)


def _draw_uncertainty_of_case(
    error_row: Sequence[Axes], entropy_row: Sequence[Axes], scan: Scan, methods: Sequence[str]
) -> None:
    z = scan.fullest_slice
    plane = scan.image[..., z]
    truth = scan.truth[..., z]
    error_row[0].set_ylabel(f"{_shortened(scan.name)}\nerrors", fontsize=8)
    _show(error_row[0], scan, _rgb(plane))
    entropy_row[0].set_ylabel("truth; entropy", fontsize=8)
    _show(entropy_row[0], scan, paint_regions(plane, truth))
    for column, method in enumerate(methods, start=1):
        if method not in scan.runs:
            continue
        mask = scan.mask(method)[..., z]
        _show(error_row[column], scan, paint_errors(plane, mask, truth))
        _show(entropy_row[column], scan, _entropy_plane(scan, method, z))


def _entropy_plane(scan: Scan, method: str, z: int) -> Plane:
    """Entropy in bits; 0 everywhere if the method's probabilities are not on disk."""
    p = scan.probabilities(method)
    if p is None:
        return np.zeros(scan.image.shape[:2])
    return largest_entropy(p[..., z])


def draw_temperatures(scans: Sequence[Scan]) -> Figure:
    """One row per method: the probability of the first region at each temperature."""
    scan = scans[0]
    slices = {}
    for method in scan.runs:
        slice_levels = scan.slice_levels(method)
        if slice_levels is not None:
            slices[method] = slice_levels
    titles = [f"T = {temperature:g}" for temperature in TEMPERATURES]
    figure, axes = _slice_grid(len(slices), ["image and truth", *titles])
    figure.set_figwidth(figure.get_figwidth() + COLOUR_BAR_WIDTH)
    maps: list[Axes] = []
    for row, method in zip(axes, slices, strict=True):
        z, levels = slices[method]
        row[0].set_ylabel(method, fontsize=8)
        _show(row[0], scan, paint_regions(scan.image[..., z], scan.truth[..., z]))
        for axis, temperature in zip(row[1:], TEMPERATURES, strict=True):
            p = scaled_probability(levels[..., 0], temperature)
            shown = _show(axis, scan, p, colour_map=BLUE_TO_RED)
        maps += row[1:]
    figure.colorbar(shown, ax=maps, label="probability", shrink=0.9)
    return figure


def draw_levels(scans: Sequence[Scan]) -> Figure:
    """One row per shift: a slice of one case from the clean image to the strongest level."""
    scan = scans[0]
    pictures_by_shift = {}
    for shift, pictures in scan.level_pictures().items():
        clean, *shifted = pictures.items()
        pictures_by_shift[shift] = [clean, *shifted[-MAX_LEVELS:]]
    columns = max(len(pictures) for pictures in pictures_by_shift.values())
    figure, axes = _slice_grid(len(pictures_by_shift), [""] * columns)
    for row, shift in zip(axes, pictures_by_shift, strict=True):
        row[0].set_ylabel(shift, fontsize=8)
        for axis, (level, file) in zip(row, pictures_by_shift[shift], strict=False):
            _show(axis, scan, _level_picture(scan, file))
            axis.set_title(f"{level:g}", fontsize=8)
    return figure


def _level_picture(scan: Scan, file: Path) -> ColourPlane:
    plane = np.asarray(Image.open(file)) / 255
    if scan.upwards:
        plane = plane[::-1]
    return _rgb(plane)


def scaled_probability(
    levels: UInt16[np.ndarray, "*space"], temperature: float
) -> Float[np.ndarray, "*space"]:
    """The probability of foreground with logits divided by `temperature`."""
    full = np.iinfo(levels.dtype).max
    # Level 0 stands for everything up to half a step, so its logit is not infinite.
    p = np.clip(levels, 0.5, full - 0.5) / full
    return special.expit(special.logit(p) / temperature)


def paint_regions(plane: Plane, regions: RegionPlane) -> ColourPlane:
    """The slice with its regions in colour. Later regions cover earlier ones."""
    grey = _rgb(plane)
    painted = _rgb(plane)
    for region in range(MAX_REGIONS):
        inside = in_region(regions, region)
        colour = COLOURS[region % len(COLOURS)]
        painted[inside] = 0.4 * grey[inside] + 0.6 * np.array(to_rgb(colour))
    return painted


def paint_errors(plane: Plane, mask: RegionPlane, truth: RegionPlane) -> ColourPlane:
    """The slice with false and true positives and false negatives of the first region in colour."""
    predicted = in_region(mask, 0)
    true = in_region(truth, 0)
    pixels_by_colour = {
        FALSE_POSITIVE: predicted & ~true,
        TRUE_POSITIVE: predicted & true,
        FALSE_NEGATIVE: true & ~predicted,
    }
    painted = _rgb(plane)
    for colour, inside in pixels_by_colour.items():
        painted[inside] = 0.3 * painted[inside] + 0.7 * np.array(to_rgb(colour))
    return painted


def _methods(scans: Sequence[Scan]) -> list[str]:
    """The methods of all scans, each once, in the order of the scans."""
    methods: dict[str, None] = {}
    for scan in scans:
        methods.update(dict.fromkeys(scan.runs))
    return list(methods)


def _rgb(plane: Plane) -> ColourPlane:
    return np.repeat(plane[..., None], 3, axis=-1)


def _slice_grid(rows: int, titles: Sequence[str]) -> tuple[Figure, list[list[Axes]]]:
    """A figure with a title above each column, and its axes row by row, all still hidden."""
    width = SLICE_SIZE * len(titles) + 0.3
    height = SLICE_SIZE * rows + 0.6
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, len(titles), squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=9)
    return figure, axes.tolist()


def _show(
    axis: Axes, scan: Scan, picture: np.ndarray, colour_map: str = DARK_TO_BRIGHT
) -> AxesImage:
    """Show a slice of colours or of values from 0 to 1, with the proportions of its pixels."""
    pixel_height, pixel_width = scan.pixel
    axis.set_axis_on()
    shown = axis.imshow(
        picture,
        cmap=colour_map,
        vmin=0,
        vmax=1,
        aspect=pixel_height / pixel_width,
        interpolation="nearest",
    )
    axis.set(xticks=[], yticks=[])
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    return shown


def _shortened(name: str) -> str:
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 3]}..."


def _add_legend(figure: Figure, colours: Mapping[str, str]) -> Figure:
    patches = [Patch(color=colour, label=name) for name, colour in colours.items()]
    columns = min(len(patches), 4)
    figure.legend(handles=patches, loc="outside lower center", ncols=columns)
    return figure
