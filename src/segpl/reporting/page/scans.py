"""Test cases as figures and viewer need them: image, truth, masks and probabilities on screen."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from jaxtyping import Bool, Float, Shaped, UInt8

from segpl.data.cases import Case
from segpl.data.formats import read_image
from segpl.data.formats.image import Image, is_placed, spacing
from segpl.data.layouts import read_dataset
from segpl.foundation.errors import UserError
from segpl.foundation.files import file_name
from segpl.metrics.entropy import entropy
from segpl.reporting.material import Material
from segpl.reporting.run_folder import RunFolder
from segpl.rundir import LEVELS_FILE, SliceLevels, read_slice_levels

MAX_METHODS = 7
"""Methods that figures show side by side."""
MAX_REGIONS = 8
"""Regions that a figure shows: one bit of a byte each."""
GREY_PERCENTILES = (1, 99.5)
"""Percentiles of the intensities that are shown as black and white."""


Volume = Float[np.ndarray, "rows columns slices"]
"""Grey values as on the screen, black at 0 and white at 1."""
RegionVolume = UInt8[np.ndarray, "rows columns slices"]
"""The regions of each voxel as on the screen: bit k is set in region k."""
Probabilities = UInt8[np.ndarray, "regions rows columns slices"]
"""The probability of each region as on the screen, in per cent."""
FileVolume = Shaped[np.ndarray, "X Y Z"]
"""A volume with the axes of its file."""


@dataclass(frozen=True)
class Scan:
    """A test case. Its volumes have rows, columns and slices as on the screen."""

    name: str
    image: Volume
    """The first channel."""
    truth: RegionVolume
    pixel: tuple[float, float]
    """Height and width of a pixel in mm."""
    runs: Mapping[str, RunFolder]
    """The run that is shown for each method."""
    regions: Sequence[Mapping[str, Any]]
    upwards: bool
    """Whether the second axis of the file points up on the screen."""

    @property
    def file_shape(self) -> tuple[int, int, int]:
        """Shape of the volume in its file: columns, rows, slices."""
        rows, columns, slices = self.image.shape
        return columns, rows, slices

    @property
    def fullest_slice(self) -> int:
        """Index of the slice with the most foreground."""
        foreground = (self.truth > 0).sum((0, 1))
        return int(foreground.argmax())

    def has_probabilities(self) -> bool:
        """Whether the probabilities of any method are on disk."""
        files = [run.probabilities_file(self.name) for run in self.runs.values()]
        return any(file.is_file() for file in files)

    def mask(self, method: str) -> RegionVolume:
        """The regions that a method predicts."""
        file = self.runs[method].mask_file(self.name)
        regions = _region_bits(_read_voxels(file), self.regions)
        return to_screen(regions, self.upwards)

    def probabilities(self, method: str) -> Probabilities | None:
        """The probabilities that a method predicts; None if they are not on disk."""
        file = self.runs[method].probabilities_file(self.name)
        if not file.is_file():
            return None
        values = _read_voxels(file).reshape(*self.file_shape, -1)
        regions = np.moveaxis(values, -1, 0)
        return np.stack([to_screen(region, self.upwards) for region in regions])

    def has_slice_levels(self) -> bool:
        """Whether the exact probabilities of a slice are on disk for any method."""
        return any(self.slice_levels(method) is not None for method in self.runs)

    def slice_levels(self, method: str) -> SliceLevels | None:
        """The exact probabilities of one slice as on the screen; None if they are not on disk."""
        stored = read_slice_levels(self._measured(self.runs[method]) / LEVELS_FILE)
        if stored is None:
            return None
        return stored._replace(levels=to_screen(stored.levels, self.upwards))

    def level_pictures(self) -> dict[str, dict[float, Path]]:
        """The stored pictures of one slice, by shift and level.

        The levels of each shift are sorted and start with the clean image.
        """
        pictures: dict[str, dict[float, Path]] = {}
        for file in self._level_files():
            shift, _, level = file.stem.partition("=")
            pictures.setdefault(shift, {}).setdefault(float(level), file)
        clean = pictures.pop("clean", {})
        with_clean = {}
        for shift in sorted(pictures):
            levels = clean | pictures[shift]
            with_clean[shift] = dict(sorted(levels.items()))
        return with_clean

    def _level_files(self) -> Iterator[Path]:
        """Yield the pictures that the evaluation of any method stored."""
        for run in self.runs.values():
            yield from self._measured(run).glob("*=*.png")

    def _measured(self, run: RunFolder) -> Path:
        """The folder of the case's measurements."""
        return run.scoring.measured / file_name(self.name)


def to_screen(volume: FileVolume, upwards: bool) -> Shaped[np.ndarray, "Y X Z"]:
    """The volume with X to the right and Y up or, as in a photograph, down the screen."""
    rows_first = volume.swapaxes(0, 1)
    return rows_first[::-1] if upwards else rows_first


def in_region(bits: UInt8[np.ndarray, "*space"], region: int) -> Bool[np.ndarray, "*space"]:
    """Where bit `region` is set."""
    return (bits >> region & 1).astype(bool)


def largest_entropy(per_cent: UInt8[np.ndarray, "regions *space"]) -> Float[np.ndarray, "*space"]:
    """The entropy of each voxel's least certain region, in bits."""
    # Probabilities are whole per cents, so a table of 101 entropies is enough.
    table = entropy(np.arange(101) / 100).astype(np.float32)
    distance_from_half = np.abs(per_cent.astype(np.int8) - 50)
    smallest_distance = distance_from_half.min(0)
    return table[50 - smallest_distance]


def find_cases(material: Material, names: Sequence[str]) -> tuple[dict[str, Case], list[str]]:
    """The labelled cases with these names, by name, and a remark if there are none."""
    first_run = material.runs[0]
    folder = Path(str(first_run.settings.get("data", "")))
    try:
        dataset = read_dataset(folder)
    except UserError as error:
        return {}, [f"No pictures of cases: the data folder {folder} could not be read. {error}"]
    labelled = {}
    for case in (*dataset.training, *dataset.test):
        if case.label:
            labelled[case.name] = case
    cases = {name: labelled[name] for name in names if name in labelled}
    if not cases:
        return {}, [f"No pictures of cases: {folder} contains no test case of these runs."]
    return cases, []


def runs_to_show(material: Material, case: str) -> dict[str, RunFolder]:
    """One run per method that has a mask of this case, for at most `MAX_METHODS` methods.

    It is the run with the lowest seed at the smallest label budget.
    """

    def budget_and_seed(run: RunFolder) -> tuple[int, int]:
        return material.budgets.index(run.budget), run.seed

    first_runs: dict[str, RunFolder] = {}
    for run in sorted(material.runs, key=budget_and_seed):
        if run.method not in first_runs and run.mask_file(case).is_file():
            first_runs[run.method] = run
    methods = [method for method in material.methods if method in first_runs]
    return {method: first_runs[method] for method in methods[:MAX_METHODS]}


def read_scan(material: Material, case: Case) -> Scan | None:
    """Read a case; None if it cannot be read, has no mask, or its files differ in shape."""
    runs = runs_to_show(material, case.name)
    try:
        image = read_image(case.images[0])
        label = read_image(case.label or case.images[0])
    except UserError:
        return None
    if not runs or not _same_shape(image, label, case.name, runs):
        return None
    y_increases = bool(label.affine[1, 1] > 0)
    upwards = y_increases and is_placed(label.affine)
    width, height, _ = spacing(label.affine)
    grey = grey_values(image.values[0])
    true_regions = _region_bits(label.values[0], material.regions)
    return Scan(
        name=case.name,
        image=to_screen(grey, upwards),
        truth=to_screen(true_regions, upwards),
        pixel=(height, width),
        runs=runs,
        regions=material.regions,
        upwards=upwards,
    )


def _same_shape(image: Image, label: Image, case: str, runs: Mapping[str, RunFolder]) -> bool:
    """Whether image, label and all masks of a case have the same shape."""
    shapes = {image.values.shape[1:], label.values.shape[1:]}
    for run in runs.values():
        mask = _read_voxels(run.mask_file(case))
        shapes.add(mask.shape)
    return len(shapes) == 1


@lru_cache(maxsize=8)
def _read_voxels(file: Path) -> Shaped[np.ndarray, "..."]:
    return np.asarray(nibabel.load(file).dataobj)


def grey_values(values: FileVolume) -> Float[np.ndarray, "X Y Z"]:
    """Intensities scaled to 0 (black) to 1 (white)."""
    low, high = np.percentile(values, GREY_PERCENTILES).tolist()
    contrast = max(high - low, 1e-6)
    scaled = (values.astype(np.float32) - low) / contrast
    return np.clip(scaled, 0, 1)


def _region_bits(
    label: FileVolume, regions: Sequence[Mapping[str, Any]]
) -> UInt8[np.ndarray, "X Y Z"]:
    """The label with bit k set in region k."""
    bits = np.zeros(label.shape, np.uint8)
    for index, region in enumerate(regions[:MAX_REGIONS]):
        inside = np.isin(label, region["values"]).astype(np.uint8)
        bits |= inside << np.uint8(index)
    return bits
