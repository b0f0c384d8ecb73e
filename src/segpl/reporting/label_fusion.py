"""A figure of how a label becomes nested regions, each a binary segmentation (appendix)."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Shaped
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from segpl.data.cases import Case, Region
from segpl.data.formats import read_image
from segpl.data.formats.image import is_placed, spacing
from segpl.foundation.errors import UserError
from segpl.reporting.colours import COLOURS
from segpl.reporting.page.scans import grey_values, to_screen

PANEL_SIZE = 1.9
"""Inches."""
LABEL_COLOURS = ("#f0e442", "#e69f00", "#56b4e9", "#cc79a7", "#009e73", "#999999")
"""The colours of label values: those of Okabe and Ito that differ from the colours of regions."""

Plane = Float[np.ndarray, "rows columns"]
"""One slice in grey, black at 0 and white at 1."""
LabelPlane = Shaped[np.ndarray, "rows columns"]
"""The label values of a slice."""
ColourPlane = Float[np.ndarray, "rows columns 3"]


def draw_label_fusion(case: Case, regions: Sequence[Region]) -> Figure:
    """The image, its label, the regions that the label becomes, and the binary mask of each.

    The slice is the one with the most label values and, among those, the most foreground.
    """
    if case.label is None:
        raise UserError(f"{case.name} has no label: choose a labelled case.")
    image = read_image(case.images[0])
    label = read_image(case.label)
    if image.values.shape[1:] != label.values.shape[1:]:
        raise UserError(f"{case.label} and {case.images[0]} differ in shape: choose another case.")
    z = slice_with_most_values(label.values[0])
    upwards = bool(label.affine[1, 1] > 0) and is_placed(label.affine)
    image_plane = to_screen(grey_values(image.values[0]), upwards)[..., z]
    label_plane = to_screen(label.values[0], upwards)[..., z]
    width, height, _ = spacing(label.affine)
    return draw_planes(image_plane, label_plane, regions, height / width)


def slice_with_most_values(label: Shaped[np.ndarray, "X Y Z"]) -> int:
    """The index of the slice with the most label values and, among those, the most foreground."""
    scores = []
    for z in range(label.shape[2]):
        plane = label[..., z]
        scores.append((len(np.unique(plane)), int(np.count_nonzero(plane))))
    return scores.index(max(scores))


def draw_planes(
    image: Plane, label: LabelPlane, regions: Sequence[Region], aspect: float = 1.0
) -> Figure:
    """The same figure of one slice. `aspect` is the height of a pixel divided by its width."""
    masks = [np.isin(label, region.values) for region in regions]
    region_colours = [COLOURS[index % len(COLOURS)] for index in range(len(regions))]
    values = [int(value) for value in np.unique(label) if value]
    value_colours = [LABEL_COLOURS[index % len(LABEL_COLOURS)] for index in range(len(values))]
    panels = {
        "image": _paint(image, [], []),
        "label": _paint(image, [label == value for value in values], value_colours),
        "regions": _paint(image, masks, region_colours),
    }
    for region, mask, colour in zip(regions, masks, region_colours, strict=True):
        panels[f"{region.name}\n{_fusion(region)}"] = _paint(np.zeros_like(image), [mask], [colour])
    figure = Figure(figsize=(PANEL_SIZE * len(panels), PANEL_SIZE + 0.9), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, picture) in zip(axes, panels.items(), strict=True):
        _show(axis, picture, title, aspect)
    names = [f"label {value}" for value in values]
    names += [region.name for region in regions]
    patches = []
    for name, colour in zip(names, [*value_colours, *region_colours], strict=True):
        patches.append(Patch(color=colour, label=name))
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), fontsize=8)
    return figure


def _fusion(region: Region) -> str:
    """The label values that make a region: label 1 or 2 or 3."""
    return "label " + " or ".join(str(value) for value in sorted(region.values))


def _paint(
    image: Plane, masks: Sequence[Bool[np.ndarray, "rows columns"]], colours: Sequence[str]
) -> ColourPlane:
    """The slice with every mask in its colour. Later masks cover earlier ones."""
    painted = np.repeat(image[..., None], 3, axis=-1).astype(float)
    for mask, colour in zip(masks, colours, strict=True):
        painted[mask] = to_rgb(colour)
    return painted


def _show(axis: Axes, picture: ColourPlane, title: str, aspect: float) -> None:
    axis.imshow(picture, aspect=aspect, interpolation="nearest")
    axis.set_title(title, fontsize=9)
    axis.set_axis_off()
