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


class Volume(NamedTuple):
    """A loaded case. A 2D image is a volume of one slice."""

    case: Case
    x: Float[Tensor, "C X Y Z"]
    y: Bool[Tensor, "K X Y Z"] | None
    affine: np.ndarray


def load(case: Case, regions: tuple[Region, ...]) -> Volume:
    """The case as tensors: channels normalised one by one, the label as one binary mask per region."""
    images = [_read(file) for file in case.images]
    for file, (values, _) in zip(case.images, images, strict=True):
        _same_shape(file, values, case.images[0], images[0][0])
        if not np.isfinite(values).all():
            raise UserError(f"{file} holds NaN or infinite values: replace them before training.")
    x = torch.from_numpy(np.stack([normalise(values.astype(np.float32)) for values, _ in images]))
    y = None
    if case.label:
        label, _ = _read(case.label)
        _same_shape(case.label, label, case.images[0], images[0][0])
        y = torch.from_numpy(_masks(case.label, label, regions))
    return Volume(case, x, y, images[0][1])


def normalise(values: Float[np.ndarray, "X Y Z"]) -> Float[np.ndarray, "X Y Z"]:
    """Zero mean and unit deviation over the body: over all voxels, or those that are not 0 where 0 is a background.

    A background stays 0, so that padding continues it.
    """
    body = values != 0
    if body.mean() > 0.99 or not body.any():  # a stray 0 is not a background
        body = np.ones_like(body)
    inside = values[body]
    return np.where(body, (values - inside.mean()) / max(float(inside.std()), 1e-6), 0).astype(np.float32)


def grid(file: Path) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Shape and spacing of an image, from its header alone."""
    with _readable(file):
        header = nibabel.load(file).header
        return (*header.get_data_shape(), 1)[:3], (*(float(zoom) for zoom in header.get_zooms()), 1.0)[:3]


def _read(file: Path) -> tuple[np.ndarray, np.ndarray]:
    with _readable(file):
        image = nibabel.load(file)
        values = np.asanyarray(image.dataobj)
        return values.reshape(*values.shape, *[1] * (3 - values.ndim)), image.affine


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, ValueError, zlib.error, ImageFileError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0].replace(str(file), "it")
        raise UserError(f"{file} cannot be read ({reason}): copy or export the file again.") from None


def _same_shape(file: Path, values: np.ndarray, reference: Path, expected: np.ndarray) -> None:
    if values.shape != expected.shape:
        raise UserError(
            f"{file} has shape {_times(values.shape)} but {reference} has {_times(expected.shape)}: "
            "export both on the same grid."
        )


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _masks(file: Path, label: np.ndarray, regions: tuple[Region, ...]) -> Bool[np.ndarray, "K X Y Z"]:
    known = {0} | {value for region in regions for value in region.values}
    unknown = sorted(set(np.unique(label).tolist()) - known)
    if unknown:
        raise UserError(
            f"{file} has label values {', '.join(f'{value:g}' for value in unknown)} that dataset.json does not name: "
            'correct the label or add them to "labels".'
        )
    return np.stack([np.isin(label, region.values) for region in regions])
