"""Test cases for the viewer in the page: one picture per volume, small enough to send by mail."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped, UInt8
from PIL import Image

from segpl.data.cases import Case
from segpl.foundation.progress import track
from segpl.reporting.grammar import plural, verb
from segpl.reporting.material import Material
from segpl.reporting.page.embedding import image_url
from segpl.reporting.page.scans import Scan, largest_entropy, read_scan

MAX_SIDE = 256
"""Pixels of a slice's longer side."""
MAX_SLICES = 64
"""Slices of a case."""
MAX_CASES = 12
MAX_BYTES = 8_000_000
"""Of all cases together."""
UNCERTAINTY_LEVELS = 12
"""Levels of uncertainty. More cannot be told apart by eye and would make the pictures larger."""


@dataclass(frozen=True)
class Gallery:
    """The cases that the viewer shows."""

    cases: Sequence[dict[str, Any]]
    """As `pack_case` returns them."""
    remarks: Sequence[str]
    """Sentences on what is left out or reduced."""


def make_gallery(material: Material, cases: Sequence[Case]) -> Gallery:
    """The first of these cases that fit into the page."""
    packed_cases: list[dict[str, Any]] = []
    total_size = 0
    unreadable = 0
    for case in track(list(cases[:MAX_CASES]), "Drawing cases"):
        scan = read_scan(material, case)
        if scan is None:
            unreadable += 1
            continue
        packed = _pack_to_fit(scan)
        size = _size(packed)
        if packed_cases and total_size + size > MAX_BYTES:
            break
        total_size += size
        packed_cases.append(packed)
    return Gallery(packed_cases, _remarks(packed_cases, len(cases), unreadable))


def _remarks(packed_cases: Sequence[dict[str, Any]], total: int, unreadable: int) -> list[str]:
    remarks = []
    left_out = total - len(packed_cases) - unreadable
    test_cases = plural(total, "test case")
    if left_out:
        are = verb(left_out, "is", "are")
        remarks.append(
            f"{left_out} of {test_cases} {are} left out to keep the file small; "
            "the worst cases are shown."
        )
    if unreadable:
        are = verb(unreadable, "is", "are")
        remarks.append(
            f"{unreadable} of {test_cases} {are} not shown, because image, label and masks "
            "could not be read or differ in shape."
        )
    if any(packed["reduced"] for packed in packed_cases):
        remarks.append(
            f"Large cases are shown at lower resolution: at most {MAX_SIDE} pixels per side "
            f"and {MAX_SLICES} slices."
        )
    if packed_cases:
        runs = ", ".join(_runs(packed_cases))
        remarks.append(f"The viewer shows one run of each method: {runs}.")
    return remarks


def _runs(packed_cases: Sequence[dict[str, Any]]) -> list[str]:
    """The names of the runs that are shown, each once."""
    names: dict[str, None] = {}
    for packed in packed_cases:
        for method in packed["methods"]:
            names[method["run"]] = None
    return list(names)


def _pack_to_fit(scan: Scan) -> dict[str, Any]:
    """Pack a case; one that is too large, such as noise, is packed at a lower resolution."""
    packed = pack_case(scan, MAX_SIDE)
    for side in (MAX_SIDE // 2, MAX_SIDE // 4):
        if _size(packed) > MAX_BYTES:
            packed = pack_case(scan, side)
    return packed


def _size(packed: dict[str, Any]) -> int:
    """Bytes of all pictures of a packed case."""
    size = len(packed["image"]) + len(packed["truth"])
    for method in packed["methods"]:
        size += len(method["mask"])
        size += len(method["uncertainty"] or "")
    return size


def pack_case(scan: Scan, max_side: int = MAX_SIDE) -> dict[str, Any]:
    """A case as page.js reads it: geometry, and a contact sheet for each volume."""
    full_rows, full_columns, depth = scan.image.shape
    step = ceil(max(full_rows, full_columns) / max_side)
    kept_slices = _kept_slices(depth)
    grey_bytes = (255 * scan.image).astype(np.uint8)
    image = _reduce(grey_bytes, step, kept_slices)
    truth = _reduce(scan.truth, step, kept_slices)
    methods = [_pack_method(scan, method, step, kept_slices) for method in scan.runs]
    rows, columns, slices = image.shape
    pixel_height, pixel_width = scan.pixel
    return {
        "name": scan.name,
        "rows": rows,
        "columns": columns,
        "slices": slices,
        "across": slices_across(slices),
        "slice_numbers": (kept_slices + 1).tolist(),
        "depth": depth,
        "start": int(np.abs(kept_slices - scan.fullest_slice).argmin()),
        "aspect": columns * pixel_width / (rows * pixel_height),
        "image": _jpeg(contact_sheet(image)),
        "truth": _png(contact_sheet(truth)),
        "methods": methods,
        "reduced": step > 1 or slices < depth,
    }


def _pack_method(
    scan: Scan, method: str, step: int, kept_slices: Int[np.ndarray, " slices"]
) -> dict[str, str | None]:
    """The mask and the uncertainty of a method; no uncertainty without probabilities on disk."""
    mask = _reduce(scan.mask(method), step, kept_slices)
    uncertainty = None
    p = scan.probabilities(method)
    if p is not None:
        reduced = np.stack([_reduce(region, step, kept_slices) for region in p])
        levels = (UNCERTAINTY_LEVELS * largest_entropy(reduced)).round().astype(np.uint8)
        uncertainty = _png(contact_sheet(levels))
    return {
        "name": method,
        "run": scan.runs[method].name,
        "mask": _png(contact_sheet(mask)),
        "uncertainty": uncertainty,
    }


def _kept_slices(depth: int) -> Int[np.ndarray, " slices"]:
    """Indices of at most `MAX_SLICES` slices, evenly spaced from the first to the last."""
    positions = np.linspace(0, depth - 1, min(depth, MAX_SLICES))
    return np.unique(positions.round().astype(int))


def _reduce(
    volume: Shaped[np.ndarray, "rows columns slices"],
    step: int,
    kept_slices: Int[np.ndarray, " slices"],
) -> Shaped[np.ndarray, "r c s"]:
    """Every `step`-th pixel of the kept slices."""
    return volume[::step, ::step][..., kept_slices]


def slices_across(slices: int) -> int:
    """The number of slices side by side in a contact sheet."""
    return ceil(slices**0.5)


def contact_sheet(volume: UInt8[np.ndarray, "rows columns slices"]) -> UInt8[np.ndarray, "R C"]:
    """All slices in one picture, row by row."""
    rows, columns, slices = volume.shape
    across = slices_across(slices)
    down = ceil(slices / across)
    sheet = np.zeros((down * rows, across * columns), np.uint8)
    for index in range(slices):
        top = index // across * rows
        left = index % across * columns
        tile = sheet[top : top + rows, left : left + columns]
        tile[:] = volume[..., index]
    return sheet


def _png(picture: UInt8[np.ndarray, "R C"]) -> str:
    return image_url(Image.fromarray(picture), "png", optimize=True)


def _jpeg(picture: UInt8[np.ndarray, "R C"]) -> str:
    return image_url(Image.fromarray(picture), "jpeg", quality=82)
