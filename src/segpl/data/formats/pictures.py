"""PNG, TIFF, GIF, JPEG and BMP, through Pillow: X is the column, Y the row, Z the page of a TIFF."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Shaped

from segpl.data.formats.image import Opened
from segpl.foundation.errors import UserError

if TYPE_CHECKING:
    import PIL.Image

_GREY = {"1": "L", "LA": "L", "La": "L"} | {
    mode: mode for mode in ("L", "I", "F", "I;16", "I;16L", "I;16B")
}


def open_picture(file: Path) -> Opened:
    """Grey values, or red, green and blue, as a viewer shows them without transparency."""
    from PIL import Image

    with Image.open(file) as picture:
        if not picture.mode.startswith("I") and ";16" in str(
            picture.tile
        ):  # Pillow would keep 8 of the bits
            raise UserError(
                f"{file} has 16 bits per colour: save it as NRRD, or each channel as a grey picture."
            )
        mode = _mode(picture)
        pages = getattr(picture, "n_frames", 1) if picture.format == "TIFF" else 1
        shape = (3 if mode == "RGB" else 1, *picture.size, pages)

    def read() -> Shaped[np.ndarray, "C X Y Z"]:
        with Image.open(file) as picture:
            return np.stack([_page(picture, number, mode) for number in range(pages)], axis=-1)

    return Opened(shape, np.eye(4), read)


def _page(picture: "PIL.Image.Image", number: int, mode: str) -> Shaped[np.ndarray, "C X Y"]:
    if number:
        picture.seek(number)
    values = np.asarray(picture if picture.mode == mode else picture.convert(mode)).T
    return values if mode == "RGB" else values[None]


def _mode(picture: "PIL.Image.Image") -> str:
    """Pillow's name for the values without alpha and palette."""
    if picture.mode in ("P", "PA"):
        return "L" if _looks_grey(picture) else "RGB"
    return _GREY.get(picture.mode, "RGB")


def _looks_grey(picture: "PIL.Image.Image") -> bool:
    """Whether no eye would see a colour: the second observer's masks of DRIVE are (4, 2, 4) and (252, 254, 252)."""
    colours = np.asarray(picture.convert("RGB"))
    return int(np.ptp(colours, axis=-1).max(initial=0)) <= 4
