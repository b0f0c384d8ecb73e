"""From the files of a case to the input of a network. All scans are prepared here.

A scan is checked, reoriented, cropped, normalised channel by channel, and resampled. `Frame` holds
what is needed to bring the network's output back to the grid of the scan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from segpl.data.cases import Case, Region, Task
from segpl.data.formats import Image, read_image
from segpl.data.formats.image import spacing
from segpl.data.formats.limits import check_voxel_count
from segpl.data.frames import Frame
from segpl.data.normalisation import Window, normalise
from segpl.data.resampling import Shape, resample, resample_label, resampled_shape
from segpl.data.scans import Scan, channels_of, complaints, read_scan
from segpl.foundation.errors import UserError


@dataclass(frozen=True)
class Preparation:
    """What is done to every image before a network sees it."""

    spacing: tuple[float, ...] | None = None
    """Millimetres between voxels that images are resampled to; None does not resample."""
    window: Window | None = None
    """Values of CT channels outside are clipped; None clips nothing."""
    orientation: str | None = None
    """Orientation that images are brought to, as in RAS; None leaves the axes as stored."""
    centre_crop: tuple[int, ...] | None = None
    """Voxels to which images are cropped around their centre, before resampling; None for none."""


class Place(NamedTuple):
    """Where a crop was cut from a prepared scan, in voxels."""

    corner: tuple[int, int, int]
    scan_shape: Shape


class Volume(NamedTuple):
    """A prepared case, or a crop of it. A 2D image is a volume of one slice."""

    case: Case
    x: Float[Tensor, "C X Y Z"]
    y: Bool[Tensor, "K X Y Z"] | None
    place: Place | None = None
    """Of a crop; None for a whole scan."""
    ignored: Bool[Tensor, "1 X Y Z"] | None = None
    """The voxels that no loss and no score counts; None if there are none."""


class Truth(NamedTuple):
    """A label on its own grid, where scores are computed and masks are written."""

    y: Bool[Tensor, "K X Y Z"]
    affine: Float[np.ndarray, "4 4"]
    ignored: Bool[Tensor, "1 X Y Z"] | None = None
    """The voxels that no score counts; None if there are none."""


class Prepared(NamedTuple):
    """The input of a network, and the grid that its output belongs to."""

    x: Float[Tensor, "C X Y Z"]
    y: Bool[Tensor, "K X Y Z"] | None
    """The label on the grid of x; None where the scan has no label."""
    frame: Frame
    """The grid of the scan as stored."""
    ignored: Bool[Tensor, "1 X Y Z"] | None = None
    """The voxels of y that no loss and no score counts; None if there are none."""


def load(case: Case, task: Task, preparation: Preparation) -> Volume:
    """A case for training: its images prepared, its label as one binary mask per region."""
    prepared = prepare(read_scan(case), task, preparation)
    return Volume(case, prepared.x, prepared.y, ignored=prepared.ignored)


def prepare(scan: Scan, task: Task, preparation: Preparation) -> Prepared:
    """The network's input for a scan. A scan that does not fit the task is an error."""
    for complaint in complaints(scan, task):
        raise UserError(complaint)
    stored = scan.images[0]
    orientation = None if scan.is_oriented else preparation.orientation
    frame = Frame(
        shape=stored.values.shape[1:],
        affine=stored.affine,
        orientation=orientation,
        header=scan.header,
        centre_crop=preparation.centre_crop,
    )

    images = [frame.reoriented(image) for image in scan.images]
    shape = network_shape(images[0], preparation)
    check_voxel_count(stored.file, shape)  # resampling can multiply the voxels
    windows = [preparation.window if is_ct(name) else None for name in task.channels]
    x = network_input(channels_of(images), windows, shape)
    if not scan.label:
        return Prepared(x, None, frame)
    label = frame.reoriented(scan.label)
    y = resample_label(masks(label, task.regions), shape)
    ignored = ignored_voxels(label, task)
    if ignored is not None:
        ignored = resample_label(ignored, shape)
    return Prepared(x, y, frame, ignored)


def network_input(
    channels: Sequence[np.ndarray],
    windows: Sequence[Window | None],
    shape: Shape,
) -> Float[Tensor, "C X Y Z"]:
    """Channels of a reoriented scan, normalised one by one and resampled to `shape`.

    Each slice of the result is contiguous in memory, because inference cuts slabs off it.
    """
    x, y, z = shape
    slices_first = torch.empty(len(channels), z, y, x)
    prepared = slices_first.permute(0, 3, 2, 1)
    for index, (channel, window) in enumerate(zip(channels, windows, strict=True)):
        normalised = normalise(channel.astype(np.float32), window)
        prepared[index] = resample(torch.from_numpy(normalised), shape)
    return prepared


def network_shape(image: Image, preparation: Preparation) -> Shape:
    """The shape of a reoriented image after resampling; a spacing of two numbers leaves Z alone."""
    x, y, z = image.values.shape[1:]
    if not preparation.spacing:
        return x, y, z
    own_spacing = spacing(image.affine)
    wanted = (*preparation.spacing, own_spacing[2])[:3]
    return resampled_shape((x, y, z), own_spacing, wanted)


def is_ct(name: str) -> bool:
    """Whether a channel holds Hounsfield units, by its name."""
    return name.lower() in ("ct", "cta", "hu")


def load_truth(case: Case, task: Task) -> Truth:
    """The label of a case on the grid on which it was drawn."""
    assert case.label, "only labelled cases have a truth"
    return truth_of(read_image(case.label), task)


def truth_of(label: Image, task: Task) -> Truth:
    """The truth in a label that was read."""
    return Truth(masks(label, task.regions), label.affine, ignored_voxels(label, task))


def masks(label: Image, regions: tuple[Region, ...]) -> Bool[Tensor, "K X Y Z"]:
    """One binary mask per region."""
    values = label.values[0]
    by_region = [np.isin(values, region.values) for region in regions]
    return torch.from_numpy(np.stack(by_region))


def ignored_voxels(label: Image, task: Task) -> Bool[Tensor, "1 X Y Z"] | None:
    """The voxels that no loss and no score counts; None if there are none."""
    ignored = label.values[:1] == task.ignored_value
    if not ignored.any():
        return None
    return torch.from_numpy(ignored)
