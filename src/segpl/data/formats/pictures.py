"""PNG, TIFF, GIF, JPEG and BMP, through Pillow.

X is the column, Y the row and Z the page of a TIFF.
"""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Shaped

from segpl.data.formats.image import LazyImage, Voxels
from segpl.data.formats.limits import check_voxel_count
from segpl.foundation.errors import UserError

if TYPE_CHECKING:
    import PIL.Image
    import PIL.ImageFile

# Pillow warns about odd tags that do not matter; a damaged picture is an error, or has no checksum.
warnings.filterwarnings("ignore", module=r"PIL\.")

_GREY_MODES = {
    "1": "L",
    "LA": "L",
    "La": "L",
    "L": "L",
    "I": "I",
    "F": "F",
    "I;16": "I;16",
    "I;16L": "I;16L",
    "I;16B": "I;16B",
}
"""Pillow's modes without colour, each with the mode that its pixels are read in."""

_LARGEST_GREY_DIFFERENCE = 4
"""Between the red, green and blue of one pixel that still looks grey, out of 255.

The second observer's masks of DRIVE have the colours (4, 2, 4) and (252, 254, 252).
"""


def open_picture(file: Path) -> LazyImage:
    """Open a picture: grey values, or red, green and blue as displayed, without transparency."""
    from PIL import Image

    with Image.open(file) as picture:
        check_voxel_count(file, picture.size)
        _refuse_16_bit_colours(file, picture)
        mode = _reading_mode(picture)
        pages = _page_count(picture)
        width, height = picture.size
    channels = 3 if mode == "RGB" else 1
    shape = (channels, width, height, pages)

    def read() -> Voxels:
        with Image.open(file) as picture:
            picture.verify()  # checksums of a PNG, which are not looked at otherwise
        with Image.open(file) as picture:
            slices = [_read_page(picture, number, mode) for number in range(pages)]
        return np.stack(slices, axis=-1)

    return LazyImage(shape, np.eye(4), read)


def _refuse_16_bit_colours(file: Path, picture: "PIL.ImageFile.ImageFile") -> None:
    """Raise an error for colours of 16 bits: Pillow would silently drop 8 of the bits."""
    has_16_bits = ";16" in str(picture.tile)
    is_grey = picture.mode.startswith("I")
    if has_16_bits and not is_grey:
        raise UserError(
            f"{file} has 16 bits per colour: save it as NRRD, or each channel as a grey picture."
        )


def _page_count(picture: "PIL.Image.Image") -> int:
    """Only the pages of a TIFF are slices; an animated GIF counts as its first frame."""
    if picture.format != "TIFF":
        return 1
    return getattr(picture, "n_frames", 1)


def _read_page(picture: "PIL.Image.Image", number: int, mode: str) -> Shaped[np.ndarray, "C X Y"]:
    if number > 0:
        picture.seek(number)
    page = picture if picture.mode == mode else picture.convert(mode)
    values = np.asarray(page).T
    if mode == "RGB":
        return values
    return values[None]


def _reading_mode(picture: "PIL.Image.Image") -> str:
    """Pillow's name for the pixel format without transparency and palette."""
    has_palette = picture.mode in ("P", "PA")
    if has_palette:
        return "L" if _looks_grey(picture) else "RGB"
    return _GREY_MODES.get(picture.mode, "RGB")


def _looks_grey(picture: "PIL.Image.Image") -> bool:
    """Whether no pixel has a visible colour."""
    colours = np.asarray(picture.convert("RGB"))
    differences = np.ptp(colours, axis=-1)
    return int(differences.max(initial=0)) <= _LARGEST_GREY_DIFFERENCE
