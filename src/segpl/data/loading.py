"""From a case's files to tensors: read, checked, normalised."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import nibabel
import numpy as np
import torch
from jaxtyping import Bool, Float
from nibabel.filebasedimages import ImageFileError
from torch import Tensor

from segpl.data.cases import Case, Region
from segpl.errors import UserError


class Image(NamedTuple):
    """One file: voxels and where they are."""

    file: Path
    values: np.ndarray
    affine: Float[np.ndarray, "4 4"]


class Volume(NamedTuple):
    """A loaded case. A 2D image is a volume of one slice."""

    case: Case
    x: Float[Tensor, "C X Y Z"]
    y: Bool[Tensor, "K X Y Z"] | None
    affine: Float[np.ndarray, "4 4"]


def load(case: Case, regions: tuple[Region, ...]) -> Volume:
    """The case as tensors: channels normalised one by one, the label as one binary mask per region."""
    images = [_read(file) for file in case.images]
    for image in images:
        _same_grid(image, images[0])
        if not np.isfinite(image.values).all():
            raise UserError(f"{image.file} holds NaN or infinite values: replace them before training.")
    x = torch.from_numpy(np.stack([normalise(image.values.astype(np.float32)) for image in images]))
    y = None
    if case.label:
        label = _read(case.label)
        _same_grid(label, images[0])
        y = torch.from_numpy(_masks(label, regions))
    return Volume(case, x, y, images[0].affine)


def normalise(values: Float[np.ndarray, "X Y Z"]) -> Float[np.ndarray, "X Y Z"]:
    """Zero mean and unit deviation over the body: over all voxels, or those that are not 0 where 0 is a background.

    0 is a background where nothing is darker and it is no rarity, or where a fifth of all voxels hold it: in CT 0 is
    water. A background stays 0, so that padding continues it.
    """
    body = values != 0
    empty = 1 - body.mean()
    if not body.any() or not (empty >= 0.2 or (empty >= 0.01 and values.min() == 0)):
        body = np.ones_like(body)
    inside = values[body]
    return np.where(body, (values - inside.mean()) / max(float(inside.std()), 1e-6), 0).astype(np.float32)


def grid(file: Path) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Shape and spacing of an image, from its header alone."""
    with _readable(file):
        header = nibabel.load(file).header
        return (*header.get_data_shape(), 1)[:3], (*(float(zoom) for zoom in header.get_zooms()), 1.0)[:3]


def _read(file: Path) -> Image:
    with _readable(file):
        image = nibabel.load(file)
        values = np.asanyarray(image.dataobj)
    while values.ndim > 3 and values.shape[-1] == 1:
        values = values[..., 0]
    if values.ndim > 3:
        raise UserError(f"{file} has {values.ndim} dimensions: give each channel as a 3D file of its own.")
    if values.dtype.kind not in "biuf" or not values.size:
        raise UserError(f"{file} holds no plain numbers: export it as grey values.")
    return Image(file, values.reshape(*values.shape, *[1] * (3 - values.ndim)), image.affine)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, ValueError, zlib.error, ImageFileError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0].replace(str(file), file.name)
        raise UserError(f"{file} cannot be read ({reason}): copy or export the file again.") from None


def _same_grid(image: Image, reference: Image) -> None:
    if image.values.shape != reference.values.shape:
        shapes = [" x ".join(map(str, each.values.shape)) for each in (image, reference)]
        raise UserError(
            f"{image.file} has shape {shapes[0]} but {reference.file} has {shapes[1]}: export both on the same grid."
        )
    if not np.allclose(image.affine, reference.affine, atol=1e-2):
        raise UserError(
            f"{image.file} lies elsewhere than {reference.file} (their affines differ): export both on the same grid."
        )


def _masks(label: Image, regions: tuple[Region, ...]) -> Bool[np.ndarray, "K X Y Z"]:
    known = {0} | {value for region in regions for value in region.values}
    unknown = sorted(set(np.unique(label.values).tolist()) - known)
    if unknown:
        shown = ", ".join(f"{value:g}" for value in unknown[:5]) + (" and others" if len(unknown) > 5 else "")
        raise UserError(
            f"{label.file} has label values {shown} that dataset.json does not name: "
            'correct the label or add them to "labels".'
        )
    return np.stack([np.isin(label.values, region.values) for region in regions])
