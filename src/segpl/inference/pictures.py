"""An overview picture of each predicted scan: a few slices with the outlines of the regions."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Shaped, UInt8
from PIL import Image, ImageDraw, ImageFont
from scipy import ndimage
from torch import Tensor

from segpl.data.cases import Region
from segpl.data.formats.image import orientation
from segpl.data.frames import Frame
from segpl.foundation.colours import as_bytes, region_colour
from segpl.foundation.files import write_bytes
from segpl.inference.levels import HALF, LevelMaps

Picture = Image.Image
Plane = Shaped[np.ndarray, "R C"]
"""A slice as on the screen: the first row is at the top."""

SIDE = 320
"""Pixels of the longer side of a slice."""
GAP = 6
LINE = 2
"""Width of an outline in pixels."""
LEGEND = 24
"""Height of the legend in pixels."""
GREY_PERCENTILES = (1, 99.5)
"""Percentiles of the grey values that are shown as black and white."""
DEEP = 0.5
"""A volume whose depth is at least this share of its width is shown from three sides."""
UPWARDS = "AS"
"""Axes towards the front and the head point up on the screen."""


class Slice(NamedTuple):
    """A slice of a scan, with the maps whose outlines are drawn."""

    image: Plane
    levels: Shaped[np.ndarray, "K R C"]
    """Exceed 1/2 inside the regions."""
    aspect: float
    """Height of a pixel divided by its width."""


def choose_slices(x: Float[Tensor, "C X Y Z"], levels: LevelMaps, frame: Frame) -> list[Slice]:
    """The slices of a prepared scan that show the regions best.

    Three planes through the middle of the regions if the volume is deep, otherwise up to three
    slices along its third axis.
    """
    channel = x[0].numpy()
    size = _voxel_size(channel.shape, frame)
    is_foreground = np.any(levels > HALF, axis=0)
    extent = np.array(channel.shape) * size
    is_deep = channel.shape[2] > 1 and extent[2] >= DEEP * max(extent[:2])
    if is_deep:
        centre = _centre(is_foreground)
        places = [(2, centre[2]), (1, centre[1]), (0, centre[0])]
    else:
        places = [(2, z) for z in _spread_slices(is_foreground)]
    letters = frame.orientation or orientation(frame.affine)
    slices = []
    for axis, index in places:
        slices.append(_cut(channel, levels, axis, index, size, letters))
    return slices


def _voxel_size(shape: Sequence[int], frame: Frame) -> Float[np.ndarray, " 3"]:
    """The size of a voxel on the network's grid in mm."""
    field_of_view = np.array(frame.reoriented_spacing) * np.array(frame.reoriented_shape)
    return field_of_view / np.array(shape)


def _centre(is_foreground: Bool[np.ndarray, "X Y Z"]) -> list[int]:
    """The middle of the foreground; that of the volume if there is none."""
    if not is_foreground.any():
        return [size // 2 for size in is_foreground.shape]
    return [round(place) for place in ndimage.center_of_mass(is_foreground)]


def _spread_slices(is_foreground: Bool[np.ndarray, "X Y Z"]) -> list[int]:
    """Slices at a quarter, half and three quarters of the part with foreground."""
    occupied = np.flatnonzero(is_foreground.any((0, 1)))
    if not len(occupied):
        occupied = np.arange(is_foreground.shape[2])
    places = [round(place) for place in np.quantile(occupied, (0.25, 0.5, 0.75))]
    return sorted(set(places))


def _cut(
    channel: Float[np.ndarray, "X Y Z"],
    levels: LevelMaps,
    axis: int,
    index: int,
    size: Float[np.ndarray, " 3"],
    letters: str | None,
) -> Slice:
    """The slice with this index along an axis."""
    column_axis, row_axis = [other for other in range(3) if other != axis]
    image = np.take(channel, index, axis).T
    maps = np.take(levels, index, axis + 1).swapaxes(1, 2)
    if letters and letters[row_axis] in UPWARDS:
        image = image[::-1]
        maps = maps[:, ::-1]
    return Slice(image, maps, float(size[row_axis] / size[column_axis]))


def draw_overview(slices: Sequence[Slice], regions: Sequence[Region]) -> Picture:
    """The slices side by side with outlines, above the names of the regions in their colours."""
    values = np.concatenate([cut.image.ravel() for cut in slices])
    low, high = np.percentile(values, GREY_PERCENTILES)
    panels = [_draw_slice(cut, float(low), float(high)) for cut in slices]
    width = sum(panel.shape[1] for panel in panels) + GAP * (len(panels) - 1)
    height = max(panel.shape[0] for panel in panels)
    canvas = np.zeros((height + LEGEND, width, 3), np.uint8)
    left = 0
    for panel in panels:
        top = (height - panel.shape[0]) // 2
        canvas[top : top + panel.shape[0], left : left + panel.shape[1]] = panel
        left += panel.shape[1] + GAP
    picture = Image.fromarray(canvas)
    _draw_legend(picture, regions, top=height)
    return picture


def _draw_slice(cut: Slice, low: float, high: float) -> UInt8[np.ndarray, "r c 3"]:
    width, height = _screen_size(cut)
    grey = np.clip((cut.image - low) / max(high - low, 1e-6), 0, 1)
    enlarged = _resized(grey, width, height, Image.Resampling.BICUBIC)
    picture = np.repeat((255 * np.clip(enlarged, 0, 1)).astype(np.uint8)[..., None], 3, axis=2)
    for index, region_levels in enumerate(cut.levels):
        smooth = _resized(region_levels, width, height, Image.Resampling.BILINEAR)
        picture[_outline(smooth > HALF)] = as_bytes(region_colour(index))
    return picture


def _screen_size(cut: Slice) -> tuple[int, int]:
    """Width and height in pixels, with square pixels."""
    rows, columns = cut.image.shape
    height = rows * cut.aspect
    scale = SIDE / max(columns, height)
    return max(1, round(columns * scale)), max(1, round(height * scale))


def _resized(
    plane: Plane, width: int, height: int, method: Image.Resampling
) -> Float[np.ndarray, "r c"]:
    image = Image.fromarray(np.ascontiguousarray(plane, dtype=np.float32))
    return np.asarray(image.resize((width, height), method))


def _outline(region: Bool[np.ndarray, "r c"]) -> Bool[np.ndarray, "r c"]:
    """The pixels of a region near its border; the edge of the picture is no border."""
    inner = ndimage.binary_erosion(region, iterations=LINE, border_value=True)
    return region & ~inner


def _draw_legend(picture: Picture, regions: Sequence[Region], top: int) -> None:
    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default(size=13)
    left = 4
    for index, region in enumerate(regions):
        colour = as_bytes(region_colour(index))
        draw.rectangle((left, top + 10, left + 14, top + 13), fill=colour)
        draw.text((left + 19, top + 4), region.name, fill=(230, 230, 230), font=font)
        left += 34 + int(draw.textlength(region.name, font=font))


def png_bytes(picture: Picture) -> bytes:
    """The contents of a PNG file."""
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()


def save_picture(file: Path, picture: Picture) -> None:
    """Write PNG."""
    write_bytes(file, png_bytes(picture))
