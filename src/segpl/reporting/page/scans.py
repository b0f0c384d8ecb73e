"""Test cases as pictures need them: image, truth, masks and probabilities, as they lie on a screen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from jaxtyping import Bool, Float, Shaped, UInt8

from segpl.data.cases import Case
from segpl.data.formats import read_image
from segpl.data.formats.image import is_placed, spacing
from segpl.data.layouts import read_dataset
from segpl.foundation.errors import UserError
from segpl.foundation.files import file_name
from segpl.metrics.entropy import entropy
from segpl.reporting.material import Material, RunFolder
from segpl.rundir import scoring

METHODS = 7
"""Shown side by side at most."""


@dataclass(frozen=True)
class Scan:
    """A test case; every volume has rows, columns and slices as a viewer shows them."""

    name: str
    image: Float[np.ndarray, "rows columns slices"]
    """Grey values of the first channel, black at 0 and white at 1."""
    truth: UInt8[np.ndarray, "rows columns slices"]
    """Of each voxel the regions that it belongs to: bit k is region k."""
    pixel: tuple[float, float]
    """Height and width in mm."""
    runs: Mapping[str, RunFolder]
    """Which run of each method is shown."""
    regions: Sequence[Mapping[str, Any]]
    upwards: bool
    """Whether the second axis of the file runs up the screen."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the file: columns, rows, slices."""
        rows, columns, slices = self.image.shape
        return columns, rows, slices

    @property
    def fullest(self) -> int:
        """The slice with most foreground."""
        return int((self.truth > 0).sum((0, 1)).argmax())

    def has_probabilities(self) -> bool:
        """Whether any method's were kept."""
        return any(self._probabilities_file(name).is_file() for name in self.runs)

    def mask(self, method: str) -> UInt8[np.ndarray, "rows columns slices"]:
        """The regions that a method found, in bits like the truth."""
        file = self.runs[method].volume("masks", self.name)
        return on_screen(_bits(_voxels(file), self.regions), self.upwards)

    def probabilities(self, method: str) -> UInt8[np.ndarray, "regions rows columns slices"] | None:
        """What a method gave each region in per cent, if it was kept."""
        file = self._probabilities_file(method)
        if not file.is_file():
            return None
        values = _voxels(file).reshape(*self.shape, -1)
        return np.stack([on_screen(values[..., k], self.upwards) for k in range(values.shape[-1])])

    def levels(self) -> dict[str, dict[float, Path]]:
        """What it looks like under each shift, as pictures of one slice by level, where they were kept."""
        found: dict[str, dict[float, Path]] = {}
        folders = [
            scoring(run.folder, run.scoring).measured / file_name(self.name)
            for run in self.runs.values()
        ]
        files = [file for folder in folders for file in folder.glob("*=*.png")]
        for file in files:
            shift, _, level = file.stem.partition("=")
            found.setdefault(shift, {}).setdefault(float(level), file)
        clean = found.pop("clean", {})
        return {
            shift: dict(sorted((clean | levels).items())) for shift, levels in sorted(found.items())
        }

    def _probabilities_file(self, method: str) -> Path:
        return self.runs[method].volume("probabilities", self.name)


def on_screen(volume: Shaped[np.ndarray, "X Y Z"], upwards: bool) -> Shaped[np.ndarray, "Y X Z"]:
    """X to the right; Y up the screen, or down it as in a photograph."""
    turned = volume.swapaxes(0, 1)
    return turned[::-1] if upwards else turned


def in_region(bits: UInt8[np.ndarray, "*space"], region: int) -> Bool[np.ndarray, "*space"]:
    """Where a region is."""
    return (bits >> region & 1).astype(bool)


def largest_entropy(per_cent: UInt8[np.ndarray, "regions *space"]) -> Float[np.ndarray, "*space"]:
    """How unsure a voxel is, in bits: that of its least sure region."""
    table = entropy(np.arange(101) / 100).astype(np.float32)
    return table[50 - np.abs(per_cent.astype(np.int8) - 50).min(0)]


def find_cases(material: Material, names: Sequence[str]) -> tuple[dict[str, Case], list[str]]:
    """The cases of these names in the data folder that have a label; and what must be said where there are none."""
    folder = Path(str(material.runs[0].settings.get("data", "")))
    try:
        dataset = read_dataset(folder)
    except UserError as error:
        return {}, [f"No pictures of cases: the data folder {folder} cannot be read here. {error}"]
    known = {case.name: case for case in (*dataset.training, *dataset.test) if case.label}
    found = {name: known[name] for name in names if name in known}
    return found, [] if found else [
        f"No pictures of cases: no test case of these runs is in {folder}."
    ]


def shown_runs(material: Material, case: str) -> dict[str, RunFolder]:
    """The first run of each method, of the smallest budget that has it, with a mask of this case."""
    found: dict[str, RunFolder] = {}
    for run in sorted(
        material.runs, key=lambda run: (material.budgets.index(run.budget), run.seed)
    ):
        if run.method not in found and run.volume("masks", case).is_file():
            found[run.method] = run
    return {method: found[method] for method in material.methods if method in found}


@lru_cache(maxsize=8)
def _voxels(file: Path) -> Shaped[np.ndarray, "..."]:
    return np.asarray(nibabel.load(file).dataobj)


def read_scan(material: Material, case: Case) -> Scan | None:
    """A case with the masks of its methods; none where the files do not belong together."""
    runs = dict(list(shown_runs(material, case.name).items())[:METHODS])
    try:
        image, label = read_image(case.images[0]), read_image(case.label or case.images[0])
    except UserError:
        return None
    shape = label.values.shape[1:]
    fits = image.values.shape[1:] == shape
    fits &= all(_voxels(run.volume("masks", case.name)).shape == shape for run in runs.values())
    if not fits or not runs:
        return None
    upwards = bool(label.affine[1, 1] > 0) and is_placed(label.affine)
    width, height, _ = spacing(label.affine)
    grey = on_screen(_grey(image.values[0]), upwards)
    truth = on_screen(_bits(label.values[0], material.regions), upwards)
    return Scan(case.name, grey, truth, (height, width), runs, material.regions, upwards)


def _grey(values: Shaped[np.ndarray, "X Y Z"]) -> Float[np.ndarray, "X Y Z"]:
    low, high = np.percentile(values, (1, 99.5)).tolist()
    return np.clip((values.astype(np.float32) - low) / max(high - low, 1e-6), 0, 1)


def _bits(
    label: Shaped[np.ndarray, "X Y Z"], regions: Sequence[Mapping[str, Any]]
) -> UInt8[np.ndarray, "X Y Z"]:
    bits = np.zeros(label.shape, np.uint8)
    for number, region in enumerate(regions[:8]):
        bits |= np.isin(label, region["values"]).astype(np.uint8) << np.uint8(number)
    return bits
