"""The cases in the page: slices side by side in one picture a volume, small enough to be mailed."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from jaxtyping import Shaped, UInt8
from PIL import Image

from segpl.data.cases import Case
from segpl.foundation.progress import track
from segpl.reporting.material import Material
from segpl.reporting.page.scans import Scan, largest_entropy, read_scan
from segpl.reporting.words import plural, verb

SIDE, SLICES, CASES = 256, 64, 12
"""Pixels of a slice's longer side, slices of a case, and cases, at most."""
BYTES = 8_000_000
"""Of all cases together, at most."""
LEVELS = 12
"""Of uncertainty that are kept: eyes tell no more apart, and the picture stays small."""


@dataclass(frozen=True)
class Gallery:
    """What the viewer shows, and in words what it does not."""

    cases: Sequence[dict[str, Any]]
    remarks: Sequence[str]


def gallery(material: Material, cases: Sequence[Case]) -> Gallery:
    """The cases for the viewer in the order in which they are given, as many as fit."""
    shown: list[dict[str, Any]] = []
    size, unread, thinned = 0, 0, False
    for case in track(list(cases[:CASES]), "Drawing cases"):
        scan = read_scan(material, case)
        if scan is None:
            unread += 1
            continue
        one, weight = _fitting(scan)
        if shown and size + weight > BYTES:
            break
        size += weight
        thinned |= one["thinned"]
        shown.append(one)
    missing = len(cases) - len(shown) - unread
    every = plural(len(cases), "test case")
    are = verb(missing, "is", "are")
    said = {
        f"{missing} of {every} {are} left out to keep the file small; the worst are shown.": missing,
        f"{unread} of {every} could not be read together with their masks.": unread,
        f"Large cases are thinned out: at most {SIDE} pixels a side and {SLICES} slices.": thinned,
        f"The viewer shows one run of each method: {_runs(shown)}.": shown,
    }
    return Gallery(shown, [sentence for sentence, holds in said.items() if holds])


def _fitting(scan: Scan) -> tuple[dict[str, Any], int]:
    """A case as large as it may be, and its size: one of noise is made coarser until it fits."""
    for side in (SIDE, SIDE // 2, SIDE // 4):
        one = pack(scan, side)
        weight = sum(map(len, _pictures(one)))
        if weight <= BYTES:
            break
    return one, weight


def pack(scan: Scan, side: int = SIDE) -> dict[str, Any]:
    """A case as the page's script reads it: geometry, and a picture for each volume."""
    step = ceil(max(scan.image.shape[:2]) / side)
    depth = scan.image.shape[2]
    kept = np.unique(np.linspace(0, depth - 1, min(depth, SLICES)).round().astype(int))

    def thin(volume: Shaped[np.ndarray, "rows columns slices"]) -> Shaped[np.ndarray, "r c s"]:
        return volume[::step, ::step][..., kept]

    grey = thin((255 * scan.image).astype(np.uint8))
    methods = []
    for name, run in scan.runs.items():
        p = scan.probabilities(name)
        unsure = (
            None if p is None else LEVELS * largest_entropy(np.stack([thin(part) for part in p]))
        )
        doubt = None if unsure is None else _png(sheet(unsure.round().astype(np.uint8)))
        one = {
            "name": name,
            "run": run.name,
            "mask": _png(sheet(thin(scan.mask(name)))),
            "doubt": doubt,
        }
        methods.append(one)
    rows, columns, slices = grey.shape
    return {
        "name": scan.name,
        "rows": rows,
        "columns": columns,
        "slices": slices,
        "across": across(slices),
        "numbers": (kept + 1).tolist(),
        "depth": depth,
        "start": int(np.abs(kept - scan.fullest).argmin()),
        "aspect": columns * scan.pixel[1] / (rows * scan.pixel[0]),
        "image": _jpeg(sheet(grey)),
        "truth": _png(sheet(thin(scan.truth))),
        "methods": methods,
        "thinned": step > 1 or slices < depth,
    }


def across(slices: int) -> int:
    """How many slices stand beside each other in a sheet."""
    return ceil(slices**0.5)


def sheet(volume: UInt8[np.ndarray, "rows columns slices"]) -> UInt8[np.ndarray, "R C"]:
    """All slices in one picture, row by row."""
    rows, columns, slices = volume.shape
    wide, high = across(slices), ceil(slices / across(slices))
    whole = np.zeros((high * rows, wide * columns), np.uint8)
    for number in range(slices):
        y, x = divmod(number, wide)
        whole[y * rows : (y + 1) * rows, x * columns : (x + 1) * columns] = volume[..., number]
    return whole


def _runs(shown: Sequence[dict[str, Any]]) -> str:
    return ", ".join(dict.fromkeys(method["run"] for one in shown for method in one["methods"]))


def _png(picture: UInt8[np.ndarray, "R C"]) -> str:
    return _encoded(picture, "png", optimize=True)


def _jpeg(picture: UInt8[np.ndarray, "R C"]) -> str:
    return _encoded(picture, "jpeg", quality=82)


def _encoded(picture: UInt8[np.ndarray, "R C"], form: str, **options: Any) -> str:
    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, form, **options)
    return f"data:image/{form};base64,{base64.b64encode(stream.getvalue()).decode()}"


def _pictures(case: dict[str, Any]) -> list[str]:
    found = [case["image"], case["truth"]]
    for method in case["methods"]:
        found += [method["mask"], method["doubt"] or ""]
    return found
