"""From a case's files to tensors: read, checked, put on one grid, normalised."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

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
    """The files of a case, read."""

    case: Case
    images: list[Image]
    label: Image | None


def read(case: Case) -> Scan:
    """Read the files of a case; one that cannot be read is an error."""
    return Scan(case, [read_image(file) for file in case.images], read_image(case.label) if case.label else None)


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
    """The case as tensors: channels normalised one by one, the label as one binary mask per region."""
    scan = read(case)
    for sentence in complaints(scan, task):
        raise UserError(sentence)
    scan = _turned(scan, preparation.orientation)
    windows = [preparation.window if is_ct(name) else None for name in task.channels]
    channels = zip(channels_of(scan), windows, strict=True)
    x = torch.from_numpy(np.stack([normalise(each.astype(np.float32), window) for each, window in channels]))
    shape = _shape(scan.images[0], preparation)
    y = None if scan.label is None else resample_label(masks(scan.label, task.regions), shape)
    return Volume(case, resample(x, shape), y)


def unprepared(p: Float[Tensor, "*lead x y z"], frame: Frame) -> Float[Tensor, "*lead X Y Z"]:
    """What a network made of a prepared image, back on the grid that the image was stored on."""
    turned = np.ascontiguousarray(frame.back(p.reshape(-1, *p.shape[-3:]).numpy()))
    return resample(torch.from_numpy(turned).reshape(*p.shape[:-3], *turned.shape[1:]), frame.shape)


def channels_of(scan: Scan) -> list[np.ndarray]:
    """The channels of a case, whether they came in one file or in several."""
    return [channel for image in scan.images for channel in image.values]


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
    return torch.from_numpy(np.stack([np.isin(label.values[0], region.values) for region in regions]))


def resample(x: Float[Tensor, "*lead X Y Z"], shape: tuple[int, ...]) -> Float[Tensor, "*lead x y z"]:
    """The same field of view on a grid of another shape; the very same voxels where the shape is the same."""
    if tuple(x.shape[-3:]) == tuple(shape):
        return x
    flat = x.reshape(1, -1, *x.shape[-3:])
    smaller = [min(sizes) for sizes in zip(shape, x.shape[-3:], strict=True)]
    flat = interpolate(flat, size=smaller, mode="area")  # averaging keeps thinned-out axes from aliasing
    return interpolate(flat, size=shape, mode="trilinear").reshape(*x.shape[:-3], *shape)


def resampled_shape(shape: Sequence[int], spacing: Sequence[float], wanted: Sequence[float]) -> tuple[int, ...]:
    """How many voxels `wanted` mm apart cover the same field of view. A single slice stays one."""
    sizes = []
    for size, have, want in zip(shape, spacing, wanted, strict=True):
        sizes.append(max(1, round(size * have / want)) if size > 1 else 1)
    return tuple(sizes)


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
    return np.where(body, (values - inside.mean()) / max(float(inside.std()), 1e-6), 0).astype(np.float32)


def is_background(zeros: Bool[np.ndarray, "X Y Z"]) -> bool:
    """Whether zeros were put around a body, and are not its darkest voxels, or water in CT: they fill cubes.

    Cubes of 5 voxels' width hold 99.9 % of the zeros around skull-stripped brains, 86 % of a microscope's zeros, and
    11 to 98 % of those of retinal photographs. Bundles hold this function too, and there is no scipy for the opening;
    MONAI's is a convolution and takes seventeen times as long.
    """
    if zeros.mean() < 0.01:
        return False
    cubes = np.pad(zeros, 4, constant_values=True)  # an opening: shrunk by 2 voxels, then spread by as many
    for combine in (np.logical_and, np.logical_or):
        for axis in range(3):
            lines = np.moveaxis(cubes, axis, 0)
            cubes = np.moveaxis(reduce(combine, (lines[i : len(lines) - 4 + i] for i in range(5))), 0, axis)
    return bool(cubes.sum() >= 0.99 * zeros.sum())


def _turned(scan: Scan, orientation: str | None) -> Scan:
    frame = Frame(scan.images[0].values.shape[1:], scan.images[0].affine, orientation)
    label = frame.turned(scan.label) if scan.label else None
    return scan._replace(images=[frame.turned(image) for image in scan.images], label=label)


def _shape(image: Image, preparation: Preparation) -> tuple[int, ...]:
    """The shape after resampling."""
    before = image.values.shape[1:]
    if not preparation.spacing:
        return before
    steps = spacing(image.affine)
    wanted = (*preparation.spacing, steps[2])[:3]
    return resampled_shape(before, steps, wanted)


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
        shown = ", ".join(f"{value:g}" for value in unknown[:5]) + (" and others" if len(unknown) > 5 else "")
        yield (
            f"{label.file} has label values {shown} that the data set does not name: "
            'correct the label, or add them to "labels" in dataset.json.'
        )
