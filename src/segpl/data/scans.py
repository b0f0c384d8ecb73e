"""The files of a case as read from disk, and what can be wrong with them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import nibabel
import numpy as np

from segpl.data.cases import Case, Task
from segpl.data.formats import Image, read_image

SHOWN_VALUES = 5
"""Unknown label values that an error message lists."""
LARGEST_VALUE = 1e15
"""The mean square of larger grey values overflows 32 bits, and the normalised scan is empty."""


class Scan(NamedTuple):
    """The files of a case, read; or an image that a program holds in memory."""

    case: Case
    images: list[Image]
    label: Image | None
    header: Any = None
    """nibabel's, if the first image is NIfTI."""
    is_oriented: bool = False
    """Whether the axes are those of the training images already, as in an array."""


def read_scan(case: Case) -> Scan:
    """Read the files of a case; a file that cannot be read is an error."""
    images = [read_image(file) for file in case.images]
    label = read_image(case.label) if case.label else None
    return Scan(case, images, label, nifti_header(images[0].file))


def nifti_header(file: Path) -> Any:
    """The header of a NIfTI file, so that masks can repeat its geometry to the last digit.

    None for other formats.
    """
    if file.name.lower().endswith((".nii", ".nii.gz")):
        return nibabel.load(file).header
    return None


def channels_of(images: Sequence[Image]) -> list[np.ndarray]:
    """The channels of a case, whether they are stored in one file or in several."""
    channels: list[np.ndarray] = []
    for image in images:
        channels.extend(image.values)
    return channels


def complaints(scan: Scan, task: Task) -> Iterator[str]:
    """Everything that is wrong with a scan: sentences that name the file and the remedy."""
    reference = scan.images[0]
    for image in scan.images:
        yield from _grid_complaints(image, reference)
        yield from _value_complaints(image)
    channels = len(channels_of(scan.images))
    if channels != len(task.channels):
        names = ", ".join(task.channels)
        yield (
            f"{reference.file} has {channels} channels, but the task has {len(task.channels)} "
            f"({names}): provide exactly these."
        )
    if scan.label:
        yield from _grid_complaints(scan.label, reference)
        yield from _label_complaints(scan.label, task)


def _grid_complaints(image: Image, reference: Image) -> Iterator[str]:
    shape = image.values.shape[1:]
    reference_shape = reference.values.shape[1:]
    if shape != reference_shape:
        yield (
            f"{image.file} has shape {_format_shape(shape)} but {reference.file} has "
            f"{_format_shape(reference_shape)}: export both on the same grid."
        )
    elif not np.allclose(image.affine, reference.affine, atol=1e-2):
        yield (
            f"{image.file} has another position in space than {reference.file} "
            "(their affines differ): export both on the same grid."
        )


def _value_complaints(image: Image) -> Iterator[str]:
    if not np.isfinite(image.values).all():
        yield f"{image.file} holds NaN or infinite values: replace them."
        return
    largest = max(abs(float(image.values.min())), abs(float(image.values.max())))
    if largest > LARGEST_VALUE:
        yield (
            f"{image.file} holds values up to {largest:g}, which no scanner measures: "
            f"replace those above {LARGEST_VALUE:g}, or export the file again."
        )


def _format_shape(shape: Sequence[int]) -> str:
    return " x ".join(str(size) for size in shape)


def _label_complaints(label: Image, task: Task) -> Iterator[str]:
    if len(label.values) != 1:
        yield f"{label.file} has {len(label.values)} channels: a label must have a single channel."
    known_values: set[int | None] = {0, task.ignored_value}
    for region in task.regions:
        known_values.update(region.values)
    values = np.unique(label.values).tolist()
    unknown_values = sorted(set(values) - known_values)
    if unknown_values:
        listed = ", ".join(f"{value:g}" for value in unknown_values[:SHOWN_VALUES])
        if len(unknown_values) > SHOWN_VALUES:
            listed += " and others"
        yield (
            f"{label.file} has label values {listed} that the data set does not name: "
            'correct the label, or add them to "labels" in dataset.json or "regions" in segpl.yaml.'
        )
