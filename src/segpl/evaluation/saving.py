"""Masks, probabilities and pictures of test cases, for figures and viewers."""

import io
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from PIL import Image
from torch import Tensor

from segpl.data.cases import Region
from segpl.foundation.files import write_bytes, write_nifti
from segpl.inference.label_map import merge_regions
from segpl.inference.levels import to_levels
from segpl.rundir import SliceLevels, write_slice_levels

Affine = Float[np.ndarray, "4 4"]


def save_mask(
    file: Path,
    masks: Bool[Tensor, "K X Y Z"],
    regions: tuple[Region, ...],
    affine: Affine,
) -> None:
    """Write one label map in the values of the training data."""
    write_nifti(file, merge_regions(masks, regions), affine)


def save_probabilities(file: Path, p: Float[Tensor, "K X Y Z"], affine: Affine) -> None:
    """Write whole per cent, one volume per region.

    The eye cannot tell more apart, and the file is a hundredth of the size.
    """
    per_cent = (100 * p).round().byte()
    write_nifti(file, per_cent.permute(1, 2, 3, 0).numpy(), affine)


def save_slice_levels(
    file: Path, p: Float[Tensor, "K X Y Z"], truth: Bool[Tensor, "K X Y Z"]
) -> None:
    """Write the exact probabilities of the slice with most foreground."""
    z = _slice_with_most_foreground(truth, slices=p.shape[-1])
    levels = to_levels(p[..., z].permute(1, 2, 0))
    write_slice_levels(file, SliceLevels(z, levels))


def save_slice(
    file: Path,
    x: Float[Tensor, "C X Y Z"],
    clean: Float[Tensor, "C X Y Z"],
    truth: Bool[Tensor, "K *space"],
) -> None:
    """Write the first channel of the slice with most foreground as a PNG, rows along Y.

    The grey values are scaled by the clean image.
    """
    z = _slice_with_most_foreground(truth, slices=x.shape[-1])
    clean_slice = clean[0, ..., z].numpy()
    shown_slice = x[0, ..., z].cpu().numpy()
    low, high = np.quantile(clean_slice, (0.005, 0.995))
    scaled = (shown_slice - low) / max(high - low, 1e-6)
    grey = 255 * scaled.clip(0, 1)
    picture = Image.fromarray(grey.T.round().astype(np.uint8))
    stream = io.BytesIO()
    picture.save(stream, "png")
    write_bytes(file, stream.getvalue())


def _slice_with_most_foreground(truth: Bool[Tensor, "K *space"], slices: int) -> int:
    """Its index among the slices of the image, whose grid may differ from the label's."""
    foreground = truth.any(0).flatten(0, 1).sum(0)
    position = (foreground.argmax() + 0.5) / truth.shape[-1]
    return int(position * slices)
