"""The only preparation: from the files of a case to what a network takes, and back to the scan's grid.

Forwards: read, checked, reoriented, normalised channel by channel, resampled. Backwards: resampled
and reoriented to the grid that the scan was stored on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import nibabel
import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import interpolate

from segpl.data.cases import Case, Region, Task
from segpl.data.formats import Image, read_image
from segpl.data.formats.image import spacing
from segpl.data.frames import Frame
from segpl.foundation.errors import UserError


@dataclass(frozen=True)
class Preparation:
    """What is done to every image before a network sees it."""

    spacing: tuple[float, ...] | None = None
    """Millimetres between voxels that images are resampled to; none leaves them as they are."""
    window: tuple[float, float] | None = None
    """Values of CT channels outside are clipped; none clips nothing."""
    orientation: str | None = None
    """Where the axes point, as in RAS; none leaves them as they are stored."""


class Volume(NamedTuple):
    """A prepared case. A 2D image is a volume of one slice."""

    case: Case
    x: Float[Tensor, "C X Y Z"]
    y: Bool[Tensor, "K X Y Z"] | None


class Truth(NamedTuple):
    """A label in its own geometry, which is where scores are taken and masks are written."""

    y: Bool[Tensor, "K X Y Z"]
    affine: Float[np.ndarray, "4 4"]


class Scan(NamedTuple):
    """The files of a case, read; or an image that a program holds in memory."""

    case: Case
    images: list[Image]
    label: Image | None
    header: Any = None
    """nibabel's, if the first image is NIfTI."""
    is_oriented: bool = False
    """Whether the axes are those of the training images already, as in an array without an affine."""


class Prepared(NamedTuple):
    """What a network is given, and where its answer belongs."""

    x: Float[Tensor, "C X Y Z"]
    y: Bool[Tensor, "K X Y Z"] | None
    """The label on the same grid; none where the scan has no label."""
    frame: Frame
    """The grid of the scan as stored."""


def read(case: Case) -> Scan:
    """Read the files of a case; one that cannot be read is an error."""
    images = [read_image(file) for file in case.images]
    label = read_image(case.label) if case.label else None
    return Scan(case, images, label, _header(images[0]))


def _header(image: Image) -> Any:
    """The header of a NIfTI file, so that masks can repeat its geometry to the last digit."""
    if image.file.name.lower().endswith((".nii", ".nii.gz")):
        return nibabel.load(image.file).header
    return None


def complaints(scan: Scan, task: Task) -> Iterator[str]:
    """All that is wrong with a case, each in one sentence that names the file and the remedy."""
    for image in scan.images:
        yield from _other_grid(image, scan.images[0])
        if not np.isfinite(image.values).all():
            yield f"{image.file} holds NaN or infinite values: replace them before training."
    channels = sum(len(image.values) for image in scan.images)
    if channels != len(task.channels):
        yield (
            f"{scan.images[0].file} has {channels} channels, but the task has {len(task.channels)} "
            f"({', '.join(task.channels)}): give as many."
        )
    if scan.label:
        yield from _other_grid(scan.label, scan.images[0])
        yield from _unknown_values(scan.label, task.regions)


def load(case: Case, task: Task, preparation: Preparation) -> Volume:
    """A case as training wants it: its images prepared, its label as one binary mask per region."""
    prepared = prepare(read(case), task, preparation)
    return Volume(case, prepared.x, prepared.y)


def prepare(scan: Scan, task: Task, preparation: Preparation) -> Prepared:
    """What a network takes of a scan. A scan that does not fit the task is an error."""
    for sentence in complaints(scan, task):
        raise UserError(sentence)
    stored = scan.images[0]
    orientation = None if scan.is_oriented else preparation.orientation
    frame = Frame(stored.values.shape[1:], stored.affine, orientation, scan.header)
    images = [frame.reoriented(image) for image in scan.images]
    shape = network_shape(images[0], preparation)
    windows = [preparation.window if is_ct(name) else None for name in task.channels]
    x = network_input(channels_of(images), windows, shape)
    y = None
    if scan.label:
        label = frame.reoriented(scan.label)
        y = resample_label(masks(label, task.regions), shape)
    return Prepared(x, y, frame)


def network_input(
    channels: Sequence[np.ndarray],
    windows: Sequence[tuple[float, float] | None],
    shape: tuple[int, int, int],
) -> Float[Tensor, "C X Y Z"]:
    """Channels of a reoriented scan, normalised one by one and resampled to `shape`.

    The planes of the result lie together in memory, because inference cuts slabs off it.
    """
    x, y, z = shape
    prepared = torch.empty(len(channels), z, y, x).permute(0, 3, 2, 1)
    for index, (channel, window) in enumerate(zip(channels, windows, strict=True)):
        normalised = normalise(channel.astype(np.float32), window)
        prepared[index] = resample(torch.from_numpy(normalised), shape)
    return prepared


def channels_of(images: Sequence[Image]) -> list[np.ndarray]:
    """The channels of a case, whether they came in one file or in several."""
    channels: list[np.ndarray] = []
    for image in images:
        channels.extend(image.values)
    return channels


def is_ct(name: str) -> bool:
    """Whether a channel holds Hounsfield units, by its name."""
    return name.lower() in ("ct", "cta", "hu")


def load_truth(case: Case, task: Task) -> Truth:
    """The label of a case as it was drawn."""
    assert case.label, "only labelled cases have a truth"
    label = read_image(case.label)
    return Truth(masks(label, task.regions), label.affine)


def masks(label: Image, regions: tuple[Region, ...]) -> Bool[Tensor, "K X Y Z"]:
    """One binary mask per region."""
    return torch.from_numpy(
        np.stack([np.isin(label.values[0], region.values) for region in regions])
    )


def resample(
    x: Float[Tensor, "*lead X Y Z"], shape: tuple[int, ...]
) -> Float[Tensor, "*lead x y z"]:
    """The same field of view on a grid of another shape; the very same voxels where the shape is the same."""
    if tuple(x.shape[-3:]) == tuple(shape):
        return x
    flat = x.reshape(1, -1, *x.shape[-3:])
    smaller = [min(sizes) for sizes in zip(shape, x.shape[-3:], strict=True)]
    flat = interpolate(
        flat, size=smaller, mode="area"
    )  # averaging keeps thinned-out axes from aliasing
    return interpolate(flat, size=shape, mode="trilinear").reshape(*x.shape[:-3], *shape)


def resampled_shape(
    shape: Sequence[int], spacing: Sequence[float], wanted: Sequence[float]
) -> tuple[int, int, int]:
    """How many voxels `wanted` mm apart cover the same field of view. A single slice stays one."""
    sizes = []
    for size, have, want in zip(shape, spacing, wanted, strict=True):
        sizes.append(max(1, round(size * have / want)) if size > 1 else 1)
    x, y, z = sizes
    return x, y, z


def network_shape(image: Image, preparation: Preparation) -> tuple[int, int, int]:
    """The shape of a reoriented image after resampling; a spacing of two numbers leaves Z alone."""
    x, y, z = image.values.shape[1:]
    if not preparation.spacing:
        return x, y, z
    steps = spacing(image.affine)
    wanted = (*preparation.spacing, steps[2])[:3]
    return resampled_shape((x, y, z), steps, wanted)


def resample_label(y: Bool[Tensor, "K X Y Z"], shape: tuple[int, ...]) -> Bool[Tensor, "K x y z"]:
    """The same for masks: the nearest voxel, which neither swells nor starves thin structures on average."""
    if tuple(y.shape[-3:]) == tuple(shape):
        return y
    return interpolate(y[None].float(), size=shape, mode="nearest-exact")[0] > 0.5


def normalise(
    values: Float[np.ndarray, "X Y Z"], window: tuple[float, float] | None = None
) -> Float[np.ndarray, "X Y Z"]:
    """Zero mean and unit deviation over the body: over all voxels, or those that are not 0 where 0 is a background.

    A background stays 0, so that padding continues it.
    """
    if window:
        values = np.clip(values, *window)
    body = values != 0
    if window or not body.any() or not is_background(~body):
        body = np.ones_like(body)
    inside = values[body]
    return np.where(body, (values - inside.mean()) / max(float(inside.std()), 1e-6), 0).astype(
        np.float32
    )


def is_background(zeros: Bool[np.ndarray, "X Y Z"]) -> bool:
    """Whether zeros were put around a body, and are not its darkest voxels, or water in CT: they fill cubes.

    Cubes of 5 voxels' width hold 99.9 % of the zeros around skull-stripped brains, 86 % of a microscope's zeros, and
    11 to 98 % of those of retinal photographs. Bundles hold this function too, and there is no scipy for the opening;
    MONAI's is a convolution and takes seventeen times as long.
    """
    if zeros.mean() < 0.01:
        return False
    cubes = np.pad(
        zeros, 4, constant_values=True
    )  # an opening: shrunk by 2 voxels, then spread by as many
    for combine in (np.logical_and, np.logical_or):
        for axis in range(3):
            lines = np.moveaxis(cubes, axis, 0)
            cubes = np.moveaxis(
                reduce(combine, (lines[i : len(lines) - 4 + i] for i in range(5))), 0, axis
            )
    return bool(cubes.sum() >= 0.99 * zeros.sum())


def _other_grid(image: Image, reference: Image) -> Iterator[str]:
    if image.values.shape[1:] != reference.values.shape[1:]:
        shapes = [" x ".join(map(str, each.values.shape[1:])) for each in (image, reference)]
        yield f"{image.file} has shape {shapes[0]} but {reference.file} has {shapes[1]}: export both on the same grid."
    elif not np.allclose(image.affine, reference.affine, atol=1e-2):
        yield f"{image.file} lies elsewhere than {reference.file} (their affines differ): export both on the same grid."


def _unknown_values(label: Image, regions: tuple[Region, ...]) -> Iterator[str]:
    if len(label.values) != 1:
        yield f"{label.file} has {len(label.values)} channels: a label is one map of values."
    known = {0} | {value for region in regions for value in region.values}
    unknown = sorted(set(np.unique(label.values).tolist()) - known)
    if unknown:
        shown = ", ".join(f"{value:g}" for value in unknown[:5]) + (
            " and others" if len(unknown) > 5 else ""
        )
        yield (
            f"{label.file} has label values {shown} that the data set does not name: "
            'correct the label, or add them to "labels" in dataset.json.'
        )
